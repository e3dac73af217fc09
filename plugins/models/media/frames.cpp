#include "media/frames.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::media {
namespace {

void check(int64_t total, double native_fps) {
  if (total <= 0 || !(native_fps > 0) || !std::isfinite(native_fps))
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("a video of {} frames at {} frames per second: expected at least one frame "
                                   "and a positive rate",
                                   total, native_fps));
}

}  // namespace

std::vector<int64_t> sample_frames_qwen2(int64_t total, double native_fps, const FrameRule& rule) {
  check(total, native_fps);
  const auto factor = static_cast<double>(rule.factor);
  const double least = std::ceil(static_cast<double>(rule.least) / factor) * factor;
  const double most = std::floor(static_cast<double>(std::min(rule.most, total)) / factor) * factor;
  const double wanted = static_cast<double>(total) / native_fps * rule.frames_per_second;
  const double bounded = std::min(std::min(std::max(wanted, least), most), static_cast<double>(total));
  const auto count = static_cast<int64_t>(std::floor(bounded / factor) * factor);
  if (count < 1) return {0};

  // In single precision and from both ends, as torch.linspace does.
  std::vector<int64_t> frames(static_cast<size_t>(count));
  const auto last = static_cast<float>(total - 1);
  const float step = count > 1 ? last / static_cast<float>(count - 1) : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float at = i < count / 2 ? step * static_cast<float>(i) : last - step * static_cast<float>(count - i - 1);
    frames[static_cast<size_t>(i)] = static_cast<int64_t>(std::nearbyintf(at));
  }
  return frames;
}

std::vector<int64_t> sample_frames_qwen3(int64_t total, double native_fps, const FrameRule& rule) {
  check(total, native_fps);
  const double wanted = static_cast<double>(total) / native_fps * rule.frames_per_second;
  int64_t count = wanted < static_cast<double>(total) ? static_cast<int64_t>(wanted) : total;
  count = std::min({std::max(count, rule.least), rule.most, total});
  std::vector<int64_t> frames(static_cast<size_t>(count));
  const double step = count > 1 ? static_cast<double>(total - 1) / static_cast<double>(count - 1) : 0.0;
  for (int64_t i = 0; i < count; ++i)
    frames[static_cast<size_t>(i)] =
        i + 1 == count && count > 1 ? total - 1 : static_cast<int64_t>(std::nearbyint(static_cast<double>(i) * step));
  return frames;
}

std::vector<int64_t> sample_frames_centred(int64_t total, int64_t count) {
  check(total, 1);
  count = std::clamp<int64_t>(count, 1, total);
  const double step = static_cast<double>(total) / static_cast<double>(count), shift = step / 2;
  std::vector<int64_t> frames(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    frames[static_cast<size_t>(i)] =
        std::min(static_cast<int64_t>(static_cast<float>(shift + static_cast<double>(i) * step)), total - 1);
  return frames;
}

}  // namespace lf::media
