// How many threads a worker gets for its maths.
#pragma once

#include "launch/environment.h"

namespace lf {

// Cores this process may use: its affinity mask, cut by the CPU quota of its control group. At least 1.
int usable_cores();

// What the job says; else OMP_NUM_THREADS; else the cores divided among the workers of this host.
int threads_of_worker(int wanted, int local_world_size, const Environment& environment, int cores);

}  // namespace lf
