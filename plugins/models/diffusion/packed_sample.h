// One sample as the model gets it: rows of numbers, without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "diffusion/config.h"

namespace lf::diffusion {

// `rows` image rows that follow one another and share a time, by its place in PackedSample::times.
struct TimeRun {
  int64_t rows = 0, time = 0;
};

struct PackedSample {
  int64_t image_rows = 0, text_rows = 0;
  std::vector<float> latents;     // [image rows, in columns], noisy; conditions are behind what is wanted
  std::vector<float> text;        // [text rows, text columns]
  int64_t repeats_of_last = 1;    // how many equal text rows the last one stands for (Wan's padding)
  std::vector<float> pooled;      // [pooled columns], or empty
  std::optional<float> guidance;  // as the time embedding wants it
  std::vector<float> times;       // the first is the sample's own; as the time embedding wants them
  std::vector<TimeRun> runs;
  std::vector<int64_t> positions;  // [3, text rows + image rows]; of Wan [3, image rows]

  int64_t wanted_begin = 0, wanted_rows = 0;  // of the image rows: what is predicted
  std::vector<float> target;                  // [wanted rows, out columns]
  std::vector<float> share;                   // [wanted rows]: 1 / values that count, 0 for rows that do not
  double weight = 1;                          // of the sample's mean squared error in the loss
  // Of a sample given as tensors: for each value of the prediction its place in the reference's.
  std::vector<int64_t> places;

  bool has_source() const { return !places.empty(); }
};

// Values [channels, frames, height, width] as rows of patches, in the order channel, frame, row, column within a patch,
// or with the channel last. The sides are multiples of the patch's.
struct Grid {
  int64_t channels = 0, frames = 1, height = 0, width = 0;
  int64_t values() const { return channels * frames * height * width; }
};
enum class PatchOrder { kChannelFirst, kChannelLast };
// For each value of the rows, its place in [channels, frames, height, width].
std::vector<int64_t> patch_places(const Grid& grid, const std::vector<int64_t>& patch, PatchOrder order);

// Positions of h x w (x frames) patches with the first frame at `frame`; centred: rows and columns count from the
// middle, the first half negative (QwenEmbedRope with scale_rope). Appended to [frame, row, column].
struct Positions {
  std::vector<int64_t> axes[3];
  void add_grid(int64_t frame, int64_t frames, int64_t height, int64_t width, bool centred);
  // n rows at first, first + 1, ... on all axes, or all at 0.
  void add_line(int64_t first, int64_t n);
  void add_zeros(int64_t n);
  std::vector<int64_t> joined() const;
};

}  // namespace lf::diffusion
