// Device memory: an address range that nobody may touch, handed out as device pointers, and the bytes behind it in a
// second mapping. A host that dereferences a device pointer faults, as with a real card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace lf::sim {

class Arena {
 public:
  explicit Arena(uint64_t capacity);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null when no gap is large enough. 256-byte aligned; zero bytes take one unit. New memory holds no zeroes.
  void* allocate(uint64_t bytes, bool mappable);
  bool release(const void* memory);  // false: not the start of a live block
  bool contains(const void* memory) const;
  // The bytes behind [memory, memory + bytes), or null unless it lies within one live block.
  std::byte* bytes_of(const void* memory, uint64_t bytes, bool must_be_mappable = false) const;
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;

 private:
  struct Block {
    uint64_t bytes;
    bool mappable;
  };
  uint64_t capacity_, used_ = 0;
  std::byte *addresses_, *bytes_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Block> live_;     // by offset
  std::map<uint64_t, uint64_t> gaps_;  // offset -> bytes; never adjacent
};

}  // namespace lf::sim
