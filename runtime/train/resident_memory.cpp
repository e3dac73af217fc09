#include "train/resident_memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <unistd.h>

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

uint64_t host_memory_bytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // a number, or "max"
  if (uint64_t allowed = 0; limit >> allowed) bytes = std::min(bytes, allowed);
  return bytes;
}

}  // namespace lf
