// One rank of a group: moves bytes to and from its peers through shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "segment.h"

namespace lf::sim {

struct Transfer {
  int peer;
  bool sends;
  std::byte* data;
  uint64_t bytes, done = 0;
};

class Communicator {
 public:
  Communicator(int memory, int rank, int size);  // takes the descriptor
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // All at once, those between the same two ranks in order. False when the group was aborted, or when nothing moved for
  // the vendor's timeout; the communicator is then broken.
  bool exchange(std::vector<Transfer> transfers);
  void abort();
  bool aborted() const { return header_->aborted != 0; }
  bool broken() const { return broken_ || aborted(); }

 private:
  Ring& ring(int from, int to);
  bool advance(Transfer& transfer);
  void ring_bell();

  int rank_, size_;
  std::byte* memory_;
  SegmentHeader* header_;
  std::atomic<bool> broken_ = false;
};

}  // namespace lf::sim
