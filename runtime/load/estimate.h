// How many steps a pass over the data takes, before the run starts.
#pragma once

#include <cstdint>

#include "load/load.h"

namespace lf {

struct StepEstimate {
  int64_t steps = 0;
  uint64_t samples_read = 0;  // whose features were looked at
  bool exact = false;         // all of them: then the run has so many steps, unless samples are bad only when decoded
};

// Packs as the loader will, from inputs.position to inputs.max_samples (> 0), looking at features only, of at most
// `most` samples; the rest is taken to be like them. Every rank calls it; all get the same answer. Bad samples are
// passed over and not counted against data.max_bad.
StepEstimate estimate_steps(const LoaderInputs& inputs, uint64_t most);

}  // namespace lf
