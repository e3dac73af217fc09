// What is drawn for a sample (family/draws.h).
#pragma once

#include <cstdint>

namespace lf::diffusion {

enum Purpose : uint64_t { kLevel = 1, kTextDropout, kFirstFrame, kNoise };

}  // namespace lf::diffusion
