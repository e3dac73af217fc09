#include "media/smart_resize.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::media {
namespace {

void check_shape(Size size) {
  if (size.height <= 0 || size.width <= 0)
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("a picture of {} x {} pixels: expected at least one", size.width, size.height));
  const double ratio =
      static_cast<double>(std::max(size.height, size.width)) / static_cast<double>(std::min(size.height, size.width));
  if (ratio > kMaxAspectRatio)
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("a picture of {} x {} pixels: expected an aspect ratio of at most {}, got {:.0f}",
                                   size.width, size.height, kMaxAspectRatio, ratio));
}

// The nearest multiple, ties to the even one, as Python's round does.
int64_t round_to(int64_t length, int64_t factor) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(length) / static_cast<double>(factor))) * factor;
}
int64_t floor_to(double length, int64_t factor) {
  return static_cast<int64_t>(std::floor(length / static_cast<double>(factor))) * factor;
}
int64_t ceil_to(double length, int64_t factor) {
  return static_cast<int64_t>(std::ceil(length / static_cast<double>(factor))) * factor;
}

// `source_volume` and `volume` are pixels of all frames, before and after rounding to multiples.
Size fit(Size source, Size rounded, double source_volume, int64_t volume, int64_t factor, PixelLimits limits) {
  Size out = rounded;
  const auto height = static_cast<double>(source.height), width = static_cast<double>(source.width);
  if (volume > limits.most) {
    const double beta = std::sqrt(source_volume / static_cast<double>(limits.most));
    out = {floor_to(height / beta, factor), floor_to(width / beta, factor)};
  } else if (volume < limits.least) {
    const double beta = std::sqrt(static_cast<double>(limits.least) / source_volume);
    out = {ceil_to(height * beta, factor), ceil_to(width * beta, factor)};
  }
  return {std::max(out.height, factor), std::max(out.width, factor)};
}

}  // namespace

Size smart_resize(Size size, int64_t factor, PixelLimits limits) {
  check_shape(size);
  const Size rounded{round_to(size.height, factor), round_to(size.width, factor)};
  return fit(size, rounded, static_cast<double>(size.height * size.width), rounded.height * rounded.width, factor,
             limits);
}

Size smart_resize_video(int64_t frames, Size size, int64_t temporal_factor, int64_t factor, PixelLimits limits) {
  check_shape(size);
  if (size.height < factor || size.width < factor) {
    const double scale = std::max(static_cast<double>(factor) / static_cast<double>(size.height),
                                  static_cast<double>(factor) / static_cast<double>(size.width));
    size = {static_cast<int64_t>(static_cast<double>(size.height) * scale),
            static_cast<int64_t>(static_cast<double>(size.width) * scale)};
    check_shape(size);
  }
  const Size rounded{round_to(size.height, factor), round_to(size.width, factor)};
  const int64_t volume = round_to(frames, temporal_factor) * rounded.height * rounded.width;
  return fit(size, rounded, static_cast<double>(frames * size.height * size.width), volume, factor, limits);
}

}  // namespace lf::media
