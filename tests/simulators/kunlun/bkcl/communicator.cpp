#include "communicator.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rendezvous.h"

namespace lf::sim {
namespace {

constexpr long kLookAgainNs = 20'000'000;  // at deadlines and for peers that died before they rang

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

Communicator::Communicator(int memory, int rank, int size) : rank_(rank), size_(size) {
  void* mapped = mmap(nullptr, segment_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  close(memory);
  if (mapped == MAP_FAILED) std::abort();
  memory_ = static_cast<std::byte*>(mapped);
  header_ = reinterpret_cast<SegmentHeader*>(memory_);
}

Communicator::~Communicator() { munmap(memory_, segment_bytes(size_)); }

Ring& Communicator::ring(int from, int to) {
  return reinterpret_cast<Ring*>(memory_ + kHeaderBytes)[from * size_ + to];
}

void Communicator::ring_bell() {
  ++header_->bell;
  futex(header_->bell, FUTEX_WAKE, INT_MAX, nullptr);
}

// Moves what fits now; true when anything moved.
bool Communicator::advance(Transfer& transfer) {
  Ring& ring = transfer.sends ? this->ring(rank_, transfer.peer) : this->ring(transfer.peer, rank_);
  const uint64_t filled = ring.written - ring.read;
  const uint64_t at = (transfer.sends ? ring.written : ring.read) % kRingBytes;
  const uint64_t n =
      std::min({transfer.bytes - transfer.done, transfer.sends ? kRingBytes - filled : filled, kRingBytes - at});
  if (n == 0) return false;
  std::byte* data = transfer.data + transfer.done;
  if (transfer.sends) {
    std::memcpy(ring.data + at, data, n);
    ring.written += n;
  } else {
    std::memcpy(data, ring.data + at, n);
    ring.read += n;
  }
  transfer.done += n;
  return true;
}

bool Communicator::exchange(std::vector<Transfer> transfers) {
  const auto patience = std::chrono::duration<double>(timeout_seconds());
  auto moved_at = std::chrono::steady_clock::now();
  for (;;) {
    const uint32_t bell = header_->bell;
    bool moved = false, finished = true;
    std::set<std::pair<int, bool>> behind;  // a ring serves its transfers in order
    for (Transfer& transfer : transfers) {
      if (transfer.done == transfer.bytes || behind.contains({transfer.peer, transfer.sends})) continue;
      while (advance(transfer)) moved = true;
      if (transfer.done == transfer.bytes) continue;
      finished = false;
      behind.insert({transfer.peer, transfer.sends});
    }
    if (moved) {
      ring_bell();
      moved_at = std::chrono::steady_clock::now();
    }
    if (finished && behind.empty()) return true;
    if (aborted()) return false;
    if (std::chrono::steady_clock::now() - moved_at > patience) {
      broken_ = true;
      return false;
    }
    const timespec wait{0, kLookAgainNs};
    if (!moved) futex(header_->bell, FUTEX_WAIT, bell, &wait);
  }
}

void Communicator::abort() {
  header_->aborted = 1;
  ring_bell();
}

}  // namespace lf::sim
