#include "train/resident_memory.h"

#include <cstdio>

namespace lf {

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return memory;
  char line[256];
  long long kilobytes = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) memory.peak_bytes = kilobytes * 1024;
    if (std::sscanf(line, "VmRSS: %lld kB", &kilobytes) == 1) memory.now_bytes = kilobytes * 1024;
  }
  std::fclose(file);
  return memory;
}

}  // namespace lf
