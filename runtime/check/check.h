// `lfrun check JOB.toml`: everything that training would refuse, and what it would need, without starting it.
#pragma once

#include "config/config.h"

namespace lf {

// Prints the model, memory per rank by part, steps, checkpoint size against free space, to stdout. `processes`: ranks,
// at least 1. Throws what training would throw. Returns kDone.
int run_check(const ResolvedJob& job, int processes);

}  // namespace lf
