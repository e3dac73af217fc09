#include "media/patches.h"

#include <cstring>

namespace lf::media {

Levels make_levels(double scale, std::span<const double, 3> mean, std::span<const double, 3> deviation) {
  Levels levels;
  for (size_t channel = 0; channel < 3; ++channel)
    for (int byte = 0; byte < 256; ++byte)
      levels.value[channel][static_cast<size_t>(byte)] =
          (static_cast<float>(byte * scale) - static_cast<float>(mean[channel])) /
          static_cast<float>(deviation[channel]);
  return levels;
}

namespace {

// One frame of one patch: `from` is its first pixel; `to` its values of channel 0, `channel_step` floats before the
// next.
void write_frame(const uint8_t* from, int64_t row_bytes, int64_t patch, const Levels& levels, float* to,
                 int64_t channel_step) {
  for (int64_t y = 0; y < patch; ++y, from += row_bytes, to += patch) {
    for (int64_t x = 0; x < patch; ++x) {
      to[x] = levels.value[0][from[3 * x]];
      to[channel_step + x] = levels.value[1][from[3 * x + 1]];
      to[2 * channel_step + x] = levels.value[2][from[3 * x + 2]];
    }
  }
}

}  // namespace

void write_patches(std::span<const uint8_t* const> frames, Size size, const PatchShape& shape, const Levels& levels,
                   float* out) {
  const int64_t area = shape.patch * shape.patch, row_bytes = size.width * 3;
  for (int64_t block_y = 0; block_y < size.height; block_y += shape.factor())
    for (int64_t block_x = 0; block_x < size.width; block_x += shape.factor())
      for (int64_t y = block_y; y < block_y + shape.factor(); y += shape.patch)
        for (int64_t x = block_x; x < block_x + shape.factor(); x += shape.patch, out += shape.values())
          for (int64_t t = 0; t < shape.temporal; ++t) {
            float* to = out + t * area;
            if (t > 0 && frames[static_cast<size_t>(t)] == frames[static_cast<size_t>(t - 1)]) {
              for (int64_t channel = 0; channel < 3; ++channel)
                std::memcpy(to + channel * shape.temporal * area, to + channel * shape.temporal * area - area,
                            static_cast<size_t>(area) * sizeof(float));
            } else {
              write_frame(frames[static_cast<size_t>(t)] + y * row_bytes + x * 3, row_bytes, shape.patch, levels, to,
                          shape.temporal * area);
            }
          }
}

}  // namespace lf::media
