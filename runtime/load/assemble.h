// One micro-batch out of its samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/batch_source.h"
#include "load/load.h"
#include "load/verdict.h"

namespace lf {

struct Dropped {
  uint32_t sample = 0;  // index among the step's samples
  std::string reason;   // "file:line: reason"
};

struct Assembled {
  MicroBatch micro_batch;  // of what could be decoded; perhaps of nothing
  std::vector<Dropped> dropped;
  bool left_out = false;  // not made: the rank was asked to stop
};

// samples: indices into `all`, in the order of the micro-batch; `source` gives them. Reads, decodes and collates; a
// sample found bad now is left out. max_rows: where samples of verdict kCut are cut. Throws what is no sample's fault,
// also where the family's rows differ from the features it gave.
Assembled assemble(const StepSamples& source, const ModelCalls& model, const std::vector<JudgedSample>& all,
                   const std::vector<uint32_t>& samples, int64_t max_rows);

}  // namespace lf
