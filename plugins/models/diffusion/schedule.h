// Noise levels that training draws from: a table of 1,000 of them, and what a sample's loss weighs at each.
//
//   shift        σ' = s σ / (1 + (s - 1) σ)                       Wan, s = 5
//   exponential  σ' = e^μ / (e^μ + 1 / σ - 1), then 1 - σ' stretched so that the last level is `terminal`
//                                                                 Qwen-Image and Flux, μ = 0.8, terminal 0.02
// with σ = 1, 0.999, ..., 0.001. Time is 1000 σ'. The weight is a Gaussian in time around 500, its least value taken
// off, scaled to a mean of 1 (DiffSynth-Studio's FlowMatchScheduler).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lf::diffusion {

inline constexpr int64_t kLevels = 1000;

struct NoiseLevel {
  float sigma = 0, time = 0, weight = 1;
};

struct ScheduleOptions {
  bool exponential = false;
  double shift = 5;
  double mu = 0.8, terminal = 0.02;
  bool bell_weights = true;  // false: every level weighs 1
};

// From noise to clean: [0] is noise.
std::vector<NoiseLevel> make_schedule(const ScheduleOptions& options);

// Indices [begin, end) of a schedule.
struct LevelRange {
  int64_t begin = 0, end = kLevels;
};
// What one of two experts is trained on: levels with time at and above `boundary` · 1000 (high noise), or below it.
// Wan 2.2: 0.9 for image to video, 0.875 for text to video. In time, not in index: with shift 5 they are different.
LevelRange high_noise(const std::vector<NoiseLevel>& schedule, double boundary);
LevelRange low_noise(const std::vector<NoiseLevel>& schedule, double boundary);

}  // namespace lf::diffusion
