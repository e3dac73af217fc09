#include "core/heap.h"

#include <cstdint>
#include <cstdlib>

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lf {
namespace {

constexpr int kLargestFromHeap =
    32 << 20;  // bytes: the most that glibc takes; above, each block is a mapping of its own
constexpr int kNeverTrim = -1;
constexpr int kHeapStep = 128 << 20;  // bytes of address space; pages are made when they are touched
constexpr uintptr_t kHugePage = 2 << 20;

uintptr_t heap_end() { return reinterpret_cast<uintptr_t>(sbrk(0)); }

// Of the heap's first step alone: what it grows by later is another mapping, of which nobody tells.
void begin_in_huge_pages() {
  const uintptr_t begin = (heap_end() + kHugePage - 1) / kHugePage * kHugePage;
  void* volatile block = std::malloc(1 << 20);  // volatile: a compiler leaves out a pair of calls without use
  std::free(block);
  if (const uintptr_t end = heap_end(); end > begin)  // what the kernel refuses leaves small pages
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

void set_up_heap() {
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  mallopt(M_TRIM_THRESHOLD, kNeverTrim);
  mallopt(M_TOP_PAD, kHeapStep);
  begin_in_huge_pages();
}

}  // namespace lf
