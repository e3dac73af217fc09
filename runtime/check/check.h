// `lfrun check`: what a job would do and need, or all that is wrong with it. Starts nothing and writes nothing.
#pragma once

#include <string>

#include "config/config.h"
#include "core/problems.h"

namespace lf {

// Prints what is known of device, model, data, steps, memory and disk to stdout. `problems`: of the job so far; further
// ones are added, and all are thrown at the end as one lf::Error, closed by how many they are. `processes`: ranks that
// training would have. The device is chosen as for them, on this machine; `device_reason`: why it was, where it has
// been chosen already, else empty.
int run_check(const ResolvedJob& job, int processes, const std::string& device_reason, Problems& problems);

}  // namespace lf
