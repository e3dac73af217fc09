#include "pi05/data/view.h"

#include <algorithm>
#include <cstring>

#include "media/resample.h"

namespace lf::robot {
namespace {

constexpr int64_t kChannels = 3;

// Between which two places of a side a target's middle lies, and how near to the second.
struct Between {
  int64_t first = 0, second = 0;
  float share = 0;
};

std::vector<Between> between(int64_t source, int64_t target) {
  std::vector<Between> out(static_cast<size_t>(target));
  const float scale = static_cast<float>(source) / static_cast<float>(target);
  for (int64_t i = 0; i < target; ++i) {
    const float at = std::max((static_cast<float>(i) + 0.5f) * scale - 0.5f, 0.0f);
    const auto first = std::min(static_cast<int64_t>(at), source - 1);
    out[static_cast<size_t>(i)] = {first, std::min(first + 1, source - 1), at - static_cast<float>(first)};
  }
  return out;
}

void resize_plain(const uint8_t* rgb, media::Size size, uint8_t* target, media::Size target_size) {
  const std::vector<Between> rows = between(size.height, target_size.height),
                             columns = between(size.width, target_size.width);
  for (const Between& y : rows) {
    const uint8_t *above = rgb + y.first * size.width * kChannels, *below = rgb + y.second * size.width * kChannels;
    for (const Between& x : columns)
      for (int64_t c = 0; c < kChannels; ++c) {
        const auto mixed = [&](const uint8_t* row) {
          const auto left = static_cast<float>(row[x.first * kChannels + c]);
          return left + x.share * (static_cast<float>(row[x.second * kChannels + c]) - left);
        };
        const float top = mixed(above);
        *target++ = static_cast<uint8_t>(top + y.share * (mixed(below) - top) + 0.5f);
      }
  }
}

}  // namespace

media::Size fitted(media::Size picture, int64_t side) {
  const double ratio = std::max(static_cast<double>(picture.width) / static_cast<double>(side),
                                static_cast<double>(picture.height) / static_cast<double>(side));
  const auto shrunk = [&](int64_t length) {
    return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(length) / ratio), 1, side);
  };
  return {shrunk(picture.height), shrunk(picture.width)};
}

std::vector<uint8_t> resize_with_pad(const uint8_t* rgb, media::Size size, int64_t side, Resize how) {
  const media::Size inner = fitted(size, side);
  std::vector<uint8_t> resized(static_cast<size_t>(inner.height * inner.width * 3));
  if (how == Resize::kSmooth)
    media::resize_bilinear(rgb, size, resized.data(), inner, media::PassOrder::kPillow);
  else
    resize_plain(rgb, size, resized.data(), inner);
  if (inner == media::Size{side, side}) return resized;
  std::vector<uint8_t> out(static_cast<size_t>(side * side * 3));
  const int64_t top = (side - inner.height) / 2, left = (side - inner.width) / 2;
  for (int64_t y = 0; y < inner.height; ++y)
    std::memcpy(&out[static_cast<size_t>(((top + y) * side + left) * 3)],
                &resized[static_cast<size_t>(y * inner.width * 3)], static_cast<size_t>(inner.width * 3));
  return out;
}

}  // namespace lf::robot
