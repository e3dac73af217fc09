// Times as the models' embeddings want them. In f32, in the references' order of operations: angles run to 1000.
#pragma once

#include "diffusion/packed_sample.h"

namespace lf::diffusion {

// timestep: 0 (clean) to 1000 (noise). Flux multiplies what the pipeline divided; Qwen-Image does so after the
// embedding's frequencies (DualStreamConfig::time_scale).
inline float model_time(Architecture architecture, float timestep) {
  switch (architecture) {
    case Architecture::kFlux:
      return timestep / 1000.0f * 1000.0f;
    case Architecture::kQwenImage:
      return timestep / 1000.0f;
    case Architecture::kWan:
      return timestep;
  }
  return timestep;
}

inline float scaled_guidance(float guidance) { return guidance * 1000.0f; }

// `rows` more image rows at a time: joins the run before where that has the same.
inline void add_time(PackedSample& sample, float time, int64_t rows) {
  int64_t place = 0;
  while (place < static_cast<int64_t>(sample.times.size()) && sample.times[static_cast<size_t>(place)] != time) ++place;
  if (place == static_cast<int64_t>(sample.times.size())) sample.times.push_back(time);
  if (!sample.runs.empty() && sample.runs.back().time == place) {
    sample.runs.back().rows += rows;
  } else {
    sample.runs.push_back({rows, place});
  }
}

// Rows of pictures that are given: at time 0 where the model wants them so, else at the sample's.
inline void add_conditions(PackedSample& sample, int64_t rows, const DiffusionConfig& config) {
  if (config.clean_conditions) {
    sample.times.push_back(0);
    sample.runs.push_back({rows, static_cast<int64_t>(sample.times.size()) - 1});
  } else {
    sample.runs.back().rows += rows;
  }
}

}  // namespace lf::diffusion
