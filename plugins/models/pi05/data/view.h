// A camera's picture as the vision tower sees it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "media/smart_resize.h"
#include "pi05/data/robot_options.h"

namespace lf::robot {

// The largest size within side x side that keeps the sides' ratio, as far as whole pixels do; at least 1 x 1.
media::Size fitted(media::Size picture, int64_t side);

// rgb: u8 [size, 3]. The picture resized and put in the middle of a black square, -1 in the model's [-1, 1]: u8 [side,
// side, 3]. kPlain: lerobot 0.6.1, policies/common/vla_utils.py (resize_with_pad_torch; PyTorch's bilinear
// interpolation without align_corners), rounded to bytes here. kSmooth: openpi, packages/openpi-client image_tools.py
// (resize_with_pad; Pillow's bilinear filter). They differ where pictures shrink.
std::vector<uint8_t> resize_with_pad(const uint8_t* rgb, media::Size size, int64_t side, Resize how);

}  // namespace lf::robot
