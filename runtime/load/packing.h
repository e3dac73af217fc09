// From samples in order to the micro-batches of one step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/load.h"
#include "load/sample_stream.h"

namespace lf {

struct PackRules {
  int64_t max_rows = 0;        // of the last component, per micro-batch
  uint32_t micro_batches = 1;  // of all ranks
  bool packing = true;         // false: one sample each
  uint64_t epoch = 0;          // samples of the data set
  double max_bad = 0;
};

struct PackedStep {
  std::vector<JudgedSample> samples;
  std::vector<uint32_t> micro_batch;  // of each sample, ascending from 0
  std::vector<JudgedSample> skipped;  // bad and too long ones met on the way
  DataPosition after;
  bool last = false;          // the stream has nothing usable left
  bool none_left = false;     // nor had it anything at the position, where earlier steps took all: there is no step
  bool stopped = false;       // the stream was asked to stop: there is no step
  std::optional<Error> stop;  // why there is no step: too many bad samples, or a whole epoch without a usable one
};

// Fills micro-batches one after the other in order, never splitting a sample, until the next usable sample needs one
// more than there are. The outcome depends on the samples from `position` on and on the total number of micro-batches
// alone. A step that ends the stream may be smaller; then its fullest micro-batches are halved until none is empty that
// need not be.
PackedStep pack_step(SampleStream& stream, const PackRules& rules, DataPosition position);

// The rule of data.max_bad: the share of bad samples among those seen may not exceed it, but ten may always be bad,
// unless it is 0: so that a small data set, or the start of a large one, is not stopped by a single file. Judged for a
// whole run at the end of each step, and for a step alone while it is packed.
double most_allowed_bad(double seen, double max_bad);
bool too_many_bad(uint64_t bad, uint64_t seen, double max_bad);
Error too_many_bad_error(uint64_t bad, uint64_t seen, double max_bad, const std::string& latest_reason);

}  // namespace lf
