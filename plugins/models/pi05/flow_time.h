// The time of the flow that a sample is trained at, and what else chance decides for it.
#pragma once

#include <cstdint>

#include "pi05/config.h"

namespace lf::pi05 {

// What is drawn for a sample (family/draws.h). kPictures: as many numbers as each view needs, one after the other.
enum Purpose : uint64_t { kTime = 1, kNoise, kPictures = 1000 };

// `uniform` in [0, 1) -> scale · Beta(alpha, beta) + offset, through the inverse of the distribution: x^alpha for beta
// 1, 1 - (1 - x)^beta for alpha 1 (openpi: Beta(1.5, 1) · 0.999 + 0.001, more often near noise). f32, as the reference.
float flow_time(const Pi05Config& config, double uniform);

}  // namespace lf::pi05
