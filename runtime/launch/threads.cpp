#include "launch/threads.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include <sched.h>

#include "core/amount.h"
#include "core/error.h"

namespace lf {

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  // Control groups version 2: "max 100000", or "200000 100000" for two cores.
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0)
    cores = std::min(cores, static_cast<int>(std::ceil(quota / period)));
  return std::max(cores, 1);
}

int threads_of_worker(const JobConfig& config, int local_world_size, const Environment& environment, int cores) {
  if (config.launch.threads > 0) return config.launch.threads;
  if (config.reduction.mode == "fixed") return 1;
  if (const auto found = environment.find("OMP_NUM_THREADS"); found != environment.end() && !found->second.empty()) {
    const std::string& text = found->second;
    int threads = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (wrong != std::errc{} || end != text.data() + text.size() || threads < 1 || threads > 4096)
      fail(Exit::kUsage, "OMP_NUM_THREADS: expected an integer in [1, 4096], got \"{}\"; or set launch.threads", text);
    return threads;
  }
  return std::max(1, cores / local_world_size);
}

std::string too_many_threads(int threads, int local_world_size, int cores) {
  if (threads == 1 || int64_t{threads} * local_world_size <= cores) return "";
  return fmt::format(
      "warning: {} threads for each of {} on this host of {}: they wait for one another; lower launch.threads (or "
      "OMP_NUM_THREADS)",
      threads, counted(local_world_size, "worker"), counted(cores, "core"));
}

}  // namespace lf
