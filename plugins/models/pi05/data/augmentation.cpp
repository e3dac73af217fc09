#include "pi05/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lf::robot {
namespace {

constexpr int64_t kRgb = 3;
constexpr double kLeastTurn = 0.1;

// [side, side, 3] from 0 to 1.
using Picture = std::vector<float>;

// The value at (y, x) in pixels, between the four around it; what lies outside is `edge` repeated, or black.
template <bool kRepeatEdge>
void sample(const Picture& from, int64_t stride, int64_t top, int64_t left, int64_t side, float y, float x, float* to) {
  if constexpr (kRepeatEdge) {
    y = std::clamp(y, 0.0f, static_cast<float>(side - 1));
    x = std::clamp(x, 0.0f, static_cast<float>(side - 1));
  }
  const float y0 = std::floor(y), x0 = std::floor(x);
  for (int64_t c = 0; c < kRgb; ++c) to[c] = 0;
  for (int64_t dy = 0; dy < 2; ++dy)
    for (int64_t dx = 0; dx < 2; ++dx) {
      const int64_t row = static_cast<int64_t>(y0) + dy, column = static_cast<int64_t>(x0) + dx;
      const float weight = (dy == 0 ? 1 - (y - y0) : y - y0) * (dx == 0 ? 1 - (x - x0) : x - x0);
      if (weight == 0 || row < 0 || column < 0 || row >= side || column >= side) continue;
      for (int64_t c = 0; c < kRgb; ++c)
        to[c] += weight * from[static_cast<size_t>(((top + row) * stride + left + column) * kRgb + c)];
    }
}

Picture cut(const Picture& from, int64_t side, const Augmentation& by) {
  const int64_t kept = kept_side(side);
  const float scale = static_cast<float>(kept) / static_cast<float>(side);
  Picture out(from.size());
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x)
      sample<true>(from, side, by.top, by.left, kept, (static_cast<float>(y) + 0.5f) * scale - 0.5f,
                   (static_cast<float>(x) + 0.5f) * scale - 0.5f, &out[static_cast<size_t>((y * side + x) * kRgb)]);
  return out;
}

// The reference's grid runs from -1 to 1 over the middles of the outermost pixels, and is read as one that runs from
// edge to edge: so the picture also grows, by 1 / (side - 1).
Picture turned(const Picture& from, int64_t side, double degrees) {
  const double radians = degrees * std::numbers::pi / 180;
  const auto cosine = static_cast<float>(std::cos(radians)), sine = static_cast<float>(std::sin(radians));
  const auto pixels = static_cast<float>(side);
  const auto place = [&](int64_t i) { return side > 1 ? 2 * static_cast<float>(i) / (pixels - 1) - 1 : -1.0f; };
  Picture out(from.size());
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x) {
      const float gx = place(x), gy = place(y);
      const auto pixel = [&](float at) { return ((at + 1) * pixels - 1) / 2; };
      sample<false>(from, side, 0, 0, side, pixel(gx * sine + gy * cosine), pixel(gx * cosine - gy * sine),
                    &out[static_cast<size_t>((y * side + x) * kRgb)]);
    }
  return out;
}

void recolour(Picture& rgb, const Augmentation& by) {
  double sum = 0;
  for (float& value : rgb) sum += value *= static_cast<float>(by.brightness);
  const auto mean = static_cast<float>(sum / static_cast<double>(rgb.size()));
  for (size_t i = 0; i < rgb.size(); i += kRgb) {
    for (size_t c = i; c < i + kRgb; ++c) rgb[c] = (rgb[c] - mean) * static_cast<float>(by.contrast) + mean;
    const float grey = (rgb[i] + rgb[i + 1] + rgb[i + 2]) / kRgb;
    for (size_t c = i; c < i + kRgb; ++c) rgb[c] = grey + (rgb[c] - grey) * static_cast<float>(by.saturation);
  }
}

}  // namespace

int64_t kept_side(int64_t side) { return std::max<int64_t>(static_cast<int64_t>(static_cast<double>(side) * 0.95), 1); }

Augmentation augmentation_of(const std::array<double, kAugmentationDraws>& uniform, int64_t side, bool moves) {
  const auto places = static_cast<double>(side - kept_side(side) + 1);
  Augmentation out;
  out.moves = moves;
  out.top = static_cast<int64_t>(uniform[0] * places);
  out.left = static_cast<int64_t>(uniform[1] * places);
  out.degrees = uniform[2] * 10 - 5;
  out.brightness = 0.7 + uniform[3] * 0.6;
  out.contrast = 0.6 + uniform[4] * 0.8;
  out.saturation = 0.5 + uniform[5];
  return out;
}

void augment(std::vector<uint8_t>& rgb, int64_t side, const Augmentation& by) {
  Picture picture(rgb.size());
  for (size_t i = 0; i < rgb.size(); ++i) picture[i] = static_cast<float>(rgb[i]) / 255;
  if (by.moves) {
    picture = cut(picture, side, by);
    if (std::abs(by.degrees) > kLeastTurn) picture = turned(picture, side, by.degrees);
  }
  recolour(picture, by);
  for (size_t i = 0; i < rgb.size(); ++i)
    rgb[i] = static_cast<uint8_t>(std::clamp(picture[i], 0.0f, 1.0f) * 255 + 0.5f);
}

}  // namespace lf::robot
