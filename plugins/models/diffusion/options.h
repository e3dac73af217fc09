// [model.options] of a job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "diffusion/config.h"
#include "diffusion/schedule.h"

namespace lf::diffusion {

struct Options {
  ScheduleOptions schedule;  // "schedule" = "shift" or "exponential", "shift", "mu", "terminal", "loss_weight"
  LevelRange levels;         // "expert" = "high_noise" or "low_noise" with "boundary"; or "levels" = [begin, end)
  double text_dropout = 0;   // how often a sample's text is replaced by `null_text`
  std::string null_text;     // a file with "context" (and "pooled") of the empty prompt, beside the data
  double first_frame = 0;    // how often a video's first frame is given, clean and without loss (Wan TI2V)
  double guidance = 1;       // what a model distilled from guidance is told (Flux)
  int64_t text_length = 0;   // rows of text that the model sees, zeros after the sample's (Wan); 0: no zeros
};

// What is not given is as the family is trained: shift 5 and 512 text rows for Wan; exponential otherwise. What a
// model of this config cannot do is a mistake where nothing has been found wrong with the config.
Options parse_options(std::string_view options_json, const DiffusionConfig& config, family::Findings& findings);

}  // namespace lf::diffusion
