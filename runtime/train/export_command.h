// `lfrun export CHECKPOINT OUT`: a directory that transformers opens, from a checkpoint of a run.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"

namespace lf {

// Arguments: CHECKPOINT (a step-... folder, or the run directory: its newest complete one), OUT (must not exist), and
// optionally --dtype source|fp32|bf16, or --adapter: not the model with its adapters merged, but a directory of the
// adapters alone, for peft; --weights trained|ema, as [ema] export says where it is not given. The job is the one that
// the run recorded in config.toml. Returns kDone.
int run_export(std::span<const std::string> arguments, const PluginPlaces& places);

}  // namespace lf
