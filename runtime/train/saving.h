// A run's state to and from checkpoints.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/job.h"
#include "model/parameter_store.h"
#include "optimizer/adamw.h"

namespace lf {

// Views of everything that a checkpoint holds beside TrainerState: master values, both moments, update counts. Frozen
// parameters are not among them: they come from where the run got them. Views are as long-lived as store and optimizer.
std::vector<StateTensor> state_tensors(const ParameterStore& store, AdamW& optimizer);

// Fills them all from a checkpoint. Throws kBadData naming what is missing, or there and unknown.
void restore(const Checkpoint& checkpoint, const ParameterStore& store, AdamW& optimizer);

// Of all that must not change while a run goes on: model, data, seed, optimizer and schedule. Settings that only say
// how fast, where or how often are left out.
std::string resumable_hash(const JobConfig& config, const Description& description);

}  // namespace lf
