// What the system says of this machine, as far as this process may use it.
#pragma once

#include <cstdint>
#include <string>

namespace lf::cpu {

std::string processor_name();  // "AMD EPYC 7B13"; "unknown processor" where the system does not say
int core_count();              // in the affinity mask

struct HostMemory {
  uint64_t total_bytes = 0, available_bytes = 0;  // the machine's, or the control group's where that is less
};
HostMemory host_memory();

}  // namespace lf::cpu
