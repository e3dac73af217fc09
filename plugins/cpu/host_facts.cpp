#include "host_facts.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#include <sched.h>
#include <unistd.h>

namespace lf::cpu {
namespace {

// A file of one number; none where it is absent or says "max".
std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

uint64_t meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) {
      const size_t digit = line.find_first_of("0123456789");
      uint64_t kib = 0;
      if (digit != std::string::npos) std::from_chars(line.data() + digit, line.data() + line.size(), kib);
      return kib << 10;
    }
  return 0;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

int core_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return 1;
}

HostMemory host_memory() {
  HostMemory memory;
  memory.total_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  memory.available_bytes = meminfo_bytes("MemAvailable");
  // Control groups, version 2 then 1; the second writes a huge number for "no limit".
  for (const auto& [limit_file, used_file] :
       {std::pair("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        std::pair("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")}) {
    const auto limit = number_in(limit_file);
    const auto used = number_in(used_file);
    if (!limit || *limit >= memory.total_bytes) continue;
    memory.total_bytes = *limit;
    if (used) memory.available_bytes = std::min(memory.available_bytes, *limit - std::min(*limit, *used));
  }
  return memory;
}

}  // namespace lf::cpu
