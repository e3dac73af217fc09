// Memory of this process as the kernel counts it.
#pragma once

#include <cstdint>

namespace lf {

struct ResidentMemory {
  int64_t now_bytes = 0, peak_bytes = 0;
};
ResidentMemory resident_memory();  // zeros where the kernel does not tell

uint64_t host_memory_bytes();  // all of the host's, or what its control group allows

}  // namespace lf
