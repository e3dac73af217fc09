// What a run leaves for others to open: adapters, the model directory, and that of the moving average.
#pragma once

#include "train/run_directory.h"
#include "train/saving.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {

struct TrainedRun {
  const JobConfig& config;
  const Session& session;
  const WeightSource& source;
  const RunDirectory& directory;
  TrainedState state;
};

// On rank 0, after the last checkpoint: a moving average takes the weights' place in memory, where exports read them.
// Says in the log what was written, and how it is opened. Throws what WeightSource's exports throw.
void export_models(const TrainedRun& run);

}  // namespace lf
