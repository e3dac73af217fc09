// Frames to the rows that a vision tower takes: one row per patch, values rescaled and normalised, patches that will be
// merged next to one another.
//
// Source: patchify of the reference processors (transformers 5.24, image_processing_pil_qwen2_vl.py).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "media/smart_resize.h"

namespace lf::media {

struct PatchShape {
  int64_t patch = 14;                                              // pixels of a side
  int64_t merge = 2;                                               // patches of a side that become one token
  int64_t temporal = 2;                                            // frames of a patch
  int64_t values() const { return 3 * temporal * patch * patch; }  // of a row
  int64_t factor() const { return patch * merge; }                 // sides of frames are multiples of it
};

// A byte's value after rescaling and normalisation, by channel: (byte * scale - mean) / deviation, in the precisions of
// the reference (product in double, the rest in single).
struct Levels {
  std::array<std::array<float, 256>, 3> value;
};
Levels make_levels(double scale, std::span<const double, 3> mean, std::span<const double, 3> deviation);

// One temporal group. `frames`: u8 [height, width, 3] each, contiguous, `shape.temporal` of them (a picture is the same
// frame throughout); sides multiples of the factor. out: f32 [height/patch * width/patch, shape.values()], with rows in
// blocks of merge x merge patches, blocks in reading order; values of a row ordered [channel, frame, y, x]. [any
// thread]
void write_patches(std::span<const uint8_t* const> frames, Size size, const PatchShape& shape, const Levels& levels,
                   float* out);

}  // namespace lf::media
