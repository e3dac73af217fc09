#include "core/freed_memory.h"

#include <malloc.h>

namespace lf {
namespace {

constexpr int kLargestFromHeap =
    32 << 20;  // bytes: the most that glibc takes; above, each block is a mapping of its own
constexpr int kNeverTrim = -1;

}  // namespace

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  mallopt(M_TRIM_THRESHOLD, kNeverTrim);
}

}  // namespace lf
