// Resizing with anti-aliasing, to the bit what Pillow gives for 8-bit RGB: the back end that the processors of
// the families are compared with. Source: Keys, "Cubic convolution interpolation" (1981), a = -1/2; fixed-point
// arithmetic and rounding as in Pillow 13 (src/libImaging/Resample.c).
#pragma once

#include <cstdint>

#include "media/smart_resize.h"

namespace lf::media {

// There are two passes, each rounding to bytes, so their order shows (on noise by up to 27 levels). kPillow: rows
// first, but for heights that shrink by more than twice as many pixels as the widths: Pillow 13, which the reference
// processors use for pictures (python-pillow pull request 9549; the rule was found by trying 2,925 random sizes).
// kRowsFirst: always, as PyTorch, which they use for videos, and older Pillows.
enum class PassOrder { kPillow, kRowsFirst };

// source: u8 [size.height, size.width, 3], contiguous. target: u8 [target_size.height, target_size.width, 3], written
// whole; no overlap. Sides are at least 1. [any thread]
void resize_bicubic(const uint8_t* source, Size size, uint8_t* target, Size target_size, PassOrder order);
void resize_bilinear(const uint8_t* source, Size size, uint8_t* target, Size target_size, PassOrder order);

}  // namespace lf::media
