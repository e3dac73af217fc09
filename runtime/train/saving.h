// A run's state to and from checkpoints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/job.h"
#include "data/dataset.h"
#include "model/parameter_store.h"
#include "optimizer/adamw.h"
#include "optimizer/weight_average.h"

namespace lf {

// A parameter's moving average is named like it, with this behind.
inline constexpr const char* kAverageSuffix = ".ema";

// What training changes. Borrowed.
struct TrainedState {
  const ParameterStore* store = nullptr;
  AdamW* optimizer = nullptr;
  const WeightAverage* average = nullptr;  // null: none, or on another rank
};

// All that a checkpoint holds beside TrainerState: master values, both moments, update counts, averages. Frozen
// parameters are not among them: they come from where the run got them. Views of the host's memory, and pieces that are
// read from a device's; as long-lived as the state.
std::vector<StateTensor> state_tensors(const TrainedState& state);

// Fills them all from a checkpoint; averages are passed over where none is kept here. Throws kBadData naming what is
// missing, or there and unknown.
void restore(const Checkpoint& checkpoint, const TrainedState& state);

// The average takes the place of the master values, for exports; models read it only where the state is on the device.
void copy_average(const TrainedState& state);

// All that must not change while a run goes on: options of model, adapters, data, seed, optimizer, average, schedule
// and precision as JSON; as "model parameters" a hash of their names and shapes; of a data set that is not streamed,
// "data set samples" and "data set content", a hash of its fingerprint. Settings that only say how fast, where or how
// often are left out. `dataset` may be null.
std::map<std::string, std::string> resumable_settings(const JobConfig& config, const Description& description,
                                                      const Dataset* dataset);

// Throws kConfig naming every setting that differs, what it was and what it is. Checkpoints from before data sets were
// told apart go on with any.
void require_same_settings(const Checkpoint& checkpoint, const std::map<std::string, std::string>& now);

}  // namespace lf
