#include "optimizer/flat_memory.h"

#include <utility>

#include <sys/mman.h>

#include "core/error.h"

namespace lf {

FlatMemory::FlatMemory(int64_t elements) : elements_(elements) {
  if (elements_ == 0) return;
  void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(Exit::kUnavailable, "optimizer state: no memory for {} MiB; use fewer trained parameters or more memory",
         bytes() >> 20);
  }
  madvise(memory, bytes(), MADV_HUGEPAGE);  // a wish: fewer page faults and TLB misses in the update
  data_ = static_cast<float*>(memory);
}

FlatMemory::~FlatMemory() {
  if (data_ != nullptr) munmap(data_, bytes());
}

FlatMemory::FlatMemory(FlatMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), elements_(std::exchange(other.elements_, 0)) {}

FlatMemory& FlatMemory::operator=(FlatMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(elements_, other.elements_);
  return *this;
}

}  // namespace lf
