#include "pi05/data/view.h"

#include <algorithm>
#include <cstring>

#include "media/resample.h"

namespace lf::robot {

media::Size fitted(media::Size picture, int64_t side) {
  const double ratio = std::max(static_cast<double>(picture.width) / static_cast<double>(side),
                                static_cast<double>(picture.height) / static_cast<double>(side));
  const auto shrunk = [&](int64_t length) {
    return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(length) / ratio), 1, side);
  };
  return {shrunk(picture.height), shrunk(picture.width)};
}

std::vector<uint8_t> resize_with_pad(const uint8_t* rgb, media::Size size, int64_t side) {
  const media::Size inner = fitted(size, side);
  std::vector<uint8_t> resized(static_cast<size_t>(inner.height * inner.width * 3));
  media::resize_bilinear(rgb, size, resized.data(), inner, media::PassOrder::kPillow);
  if (inner == media::Size{side, side}) return resized;
  std::vector<uint8_t> out(static_cast<size_t>(side * side * 3));
  const int64_t top = (side - inner.height) / 2, left = (side - inner.width) / 2;
  for (int64_t y = 0; y < inner.height; ++y)
    std::memcpy(&out[static_cast<size_t>(((top + y) * side + left) * 3)],
                &resized[static_cast<size_t>(y * inner.width * 3)], static_cast<size_t>(inner.width * 3));
  return out;
}

}  // namespace lf::robot
