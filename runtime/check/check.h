// `lfrun check`: what a job would do and need, or all that is wrong with it. Starts nothing and writes nothing.
#pragma once

#include "config/config.h"
#include "core/problems.h"

namespace lf {

// Prints what is known of model, data, steps, memory and disk to stdout. `problems`: of the job so far; further ones
// are added, and all are thrown at the end as one lf::Error. `processes`: ranks that training would have.
int run_check(const ResolvedJob& job, int processes, Problems& problems);

}  // namespace lf
