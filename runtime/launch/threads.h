// How many threads a worker gets for its maths.
#pragma once

#include "config/job.h"
#include "launch/environment.h"

namespace lf {

// Cores this process may use: its affinity mask, cut by the CPU quota of its control group. At least 1.
int usable_cores();

// What the job says; else, where sums keep one order whatever the layout, 1: LibTorch's own sums are cut by threads;
// else OMP_NUM_THREADS; else the cores divided among the workers of this host.
int threads_of_worker(const JobConfig& config, int local_world_size, const Environment& environment, int cores);

// What to say where the workers of this host have more than one thread each and together more than it has cores: they
// then wait for one another. Empty: nothing.
std::string too_many_threads(int threads, int local_world_size, int cores);

}  // namespace lf
