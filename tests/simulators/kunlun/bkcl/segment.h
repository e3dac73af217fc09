// The memory that the ranks of one communicator share: a ring of bytes from every rank to every rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lf::sim {

constexpr uint64_t kRingBytes = 256 << 10;

struct Ring {
  std::atomic<uint64_t> written, read;  // ever; written - read bytes lie in between
  std::byte data[kRingBytes];
};

struct SegmentHeader {
  std::atomic<uint32_t> aborted;
  std::atomic<uint32_t> bell;  // rung after every change of any ring; a futex
};

constexpr size_t kHeaderBytes = 4096;

constexpr size_t segment_bytes(int size) { return kHeaderBytes + sizeof(Ring) * size * size; }

static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace lf::sim
