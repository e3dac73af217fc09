// A run's state to and from checkpoints.
#pragma once

#include <map>
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

// All that must not change while a run goes on: options of model, adapters, data, seed, optimizer, schedule and
// precision as JSON, and, as "model parameters", a hash of their names and shapes. Settings that only say how fast,
// where or how often are left out.
std::map<std::string, std::string> resumable_settings(const JobConfig& config, const Description& description);

// Throws kConfig naming every setting that differs, what it was and what it is.
void require_same_settings(const Checkpoint& checkpoint, const std::map<std::string, std::string>& now);

}  // namespace lf
