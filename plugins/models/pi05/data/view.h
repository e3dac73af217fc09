// A camera's picture as the vision tower sees it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "media/smart_resize.h"

namespace lf::robot {

// The largest size within side x side that keeps the sides' ratio, as far as whole pixels do; at least 1 x 1.
media::Size fitted(media::Size picture, int64_t side);

// rgb: u8 [size, 3]. The picture resized (Pillow's bilinear filter) and put in the middle of a black square: u8 [side,
// side, 3]. Source: openpi, packages/openpi-client image_tools.py (resize_with_pad). lerobot's port resizes without
// smoothing; both pad with black, -1 in the model's [-1, 1].
std::vector<uint8_t> resize_with_pad(const uint8_t* rgb, media::Size size, int64_t side);

}  // namespace lf::robot
