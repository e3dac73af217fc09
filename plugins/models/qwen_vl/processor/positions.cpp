#include "qwen_vl/processor/positions.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

constexpr float kLongestStep = 1e6f;  // position numbers stay far from overflow

[[noreturn]] void mismatch(const std::string& what) { throw sdk::Failure(LF_E_DATA, what); }

// Of Qwen2.5-VL the product is taken in single precision and cut off after it, as the reference does.
float time_step(const VisionInput& input, const QwenVlConfig& config) {
  if (!input.video || config.family != Family::kQwen2_5Vl) return 1;
  const auto step = static_cast<float>(static_cast<double>(input.seconds_per_group) * config.vision.tokens_per_second);
  if (!(step >= 0) || step > kLongestStep)
    mismatch(fmt::format("a video with {} seconds between its temporal groups: expected 0 to {}",
                         input.seconds_per_group, kLongestStep / static_cast<float>(config.vision.tokens_per_second)));
  return step;
}

}  // namespace

std::vector<VisualRun> visual_runs(std::span<const int64_t> ids, std::span<const VisionInput> vision,
                                   const QwenVlConfig& config) {
  std::vector<VisualRun> runs;
  const int64_t merge = config.vision.spatial_merge_size;
  size_t input_at = 0;
  int64_t group_at = 0;
  for (size_t row = 0; row < ids.size();) {
    const bool video = ids[row] == config.video_token_id;
    if (!video && ids[row] != config.image_token_id) {
      ++row;
      continue;
    }
    const char* kind = video ? "video" : "image";
    if (input_at == vision.size())
      mismatch(fmt::format("row {} is an {} token, but all {} images and videos have theirs already", row, kind,
                           vision.size()));
    const VisionInput& input = vision[input_at];
    if (input.video != video)
      mismatch(fmt::format("row {} is an {} token, but input {} is {}", row, kind, input_at,
                           input.video ? "a video" : "an image"));
    const bool group_by_group = video && is_qwen3(config.family);
    VisualRun run{static_cast<int64_t>(row), group_by_group ? 1 : input.groups, input.height / merge,
                  input.width / merge, time_step(input, config)};
    const auto end = static_cast<size_t>(run.end());
    const auto stop = std::find_if(ids.begin() + static_cast<std::ptrdiff_t>(row),
                                   ids.begin() + static_cast<std::ptrdiff_t>(std::min(end, ids.size())),
                                   [&](int64_t id) { return id != ids[row]; });
    if (const auto found = stop - ids.begin(); static_cast<size_t>(found) != end)
      mismatch(fmt::format("{} tokens of input {} from row {}: expected {} ({} x {} x {} after merging), got {}", kind,
                           input_at, row, run.rows(), run.groups, run.height, run.width,
                           found - static_cast<std::ptrdiff_t>(row)));
    runs.push_back(run);
    row = end;
    if (!group_by_group || ++group_at == input.groups) {
      ++input_at;
      group_at = 0;
    }
  }
  if (input_at != vision.size())
    mismatch(fmt::format("{} images and videos are given, but the tokens have place for {}", vision.size(), input_at));
  return runs;
}

void write_positions(int64_t rows, std::span<const VisualRun> runs, int64_t* out, int64_t stride) {
  int64_t row = 0, next = 0;  // the next row, and the position that text there would have
  const auto text_until = [&](int64_t end) {
    for (; row < end; ++row, ++next)
      for (int64_t axis = 0; axis < 3; ++axis) out[axis * stride + row] = next;
  };
  for (const VisualRun& run : runs) {
    text_until(run.begin);
    int64_t largest = 0;
    for (int64_t group = 0; group < run.groups; ++group) {
      const auto time = static_cast<int64_t>(static_cast<float>(group) * run.time_step);
      largest = std::max({largest, time, run.height - 1, run.width - 1});
      for (int64_t y = 0; y < run.height; ++y)
        for (int64_t x = 0; x < run.width; ++x, ++row) {
          out[row] = next + time;
          out[stride + row] = next + y;
          out[2 * stride + row] = next + x;
        }
    }
    next += largest + 1;
  }
  text_until(rows);
}

}  // namespace lf::qwen_vl
