#include "qwen_vl/processor/fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "family/fields.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::qwen_vl {
namespace {

using family::Fields;
using family::refuse_field;

constexpr int64_t kLargestSide = 1 << 20;  // patches: products of three stay within 64 bits

// Pictures or videos in their order, to be dealt to the sequences.
class Inputs {
 public:
  Inputs(Fields& fields, bool video, const QwenVlConfig& config) {
    const char* grid_name = video ? "video_grid_thw" : "image_grid_thw";
    const char* pixel_name = video ? "pixel_values_videos" : "pixel_values";
    const lf_tensor* grid = fields.find(grid_name);
    const lf_tensor* pixels = fields.find(pixel_name);
    const lf_tensor* seconds = video ? fields.find("second_per_grid_ts") : nullptr;
    if ((grid == nullptr) != (pixels == nullptr))
      refuse_field(grid == nullptr ? grid_name : pixel_name, "it beside the other of the two");
    if (grid == nullptr) return;
    const int64_t columns = config.vision.patch_columns();
    if (grid->ndim != 2 || grid->shape[1] != 3) refuse_field(grid_name, "[n, 3]");
    if (pixels->dtype != LF_DTYPE_F32 || pixels->ndim != 2 || pixels->shape[1] != columns)
      refuse_field(pixel_name, fmt::format("f32 [patches, {}]", columns));
    if (seconds != nullptr &&
        (seconds->dtype != LF_DTYPE_F32 || seconds->ndim != 1 || seconds->shape[0] != grid->shape[0]))
      refuse_field("second_per_grid_ts", fmt::format("f32 [{}]", grid->shape[0]));
    const std::span<const float> values = family::finite_floats(pixel_name, *pixels);
    std::span<const float> durations;
    if (seconds != nullptr) durations = family::finite_floats("second_per_grid_ts", *seconds);
    const std::vector<int64_t> sides = fields.integers(grid_name, *grid);
    const int64_t merge = config.vision.spatial_merge_size;
    int64_t row = 0;
    for (int64_t i = 0; i < grid->shape[0]; ++i) {
      const auto at = static_cast<size_t>(3 * i);
      VisionInput input;
      input.video = video;
      input.groups = sides[at];
      input.height = sides[at + 1];
      input.width = sides[at + 2];
      for (const int64_t side : {input.groups, input.height, input.width})
        if (side < 1 || side > kLargestSide)
          refuse_field(grid_name, fmt::format("sides from 1 to {}, got {}", kLargestSide, side));
      if ((!video && input.groups != 1) || input.height % merge != 0 || input.width % merge != 0)
        refuse_field(grid_name, fmt::format("sides in multiples of {}, and one group in a picture; got {} x {} x {}",
                                            merge, input.groups, input.height, input.width));
      if (seconds != nullptr) input.seconds_per_group = durations[static_cast<size_t>(i)];
      if (input.patches() > pixels->shape[0] - row)
        refuse_field(pixel_name, fmt::format("as many rows as {} says, got {}", grid_name, pixels->shape[0]));
      input.source = ReadyRows{values.data() + row * columns};
      row += input.patches();
      inputs_.push_back(std::move(input));
    }
    if (row != pixels->shape[0])
      refuse_field(pixel_name, fmt::format("{} rows as {} says, got {}", row, grid_name, pixels->shape[0]));
  }

  bool empty() const { return next_ == inputs_.size(); }
  const VisionInput& front() const { return inputs_[next_]; }
  VisionInput take() { return std::move(inputs_[next_++]); }
  int64_t taken() const { return static_cast<int64_t>(next_); }

 private:
  std::vector<VisionInput> inputs_;
  size_t next_ = 0;
};

// Deals the inputs whose placeholders stand in the sequence, and finds their blocks: placeholders and the markers at
// their ends. A Qwen3-VL video's reaches from its first group to its last.
void deal(Sequence& sequence, Inputs& images, Inputs& videos, const QwenVlConfig& config) {
  const int64_t merge = config.vision.spatial_merge_size;
  for (int64_t row = 0; row < sequence.rows();) {
    const int64_t id = sequence.ids[static_cast<size_t>(row)];
    const bool video = id == config.video_token_id;
    Inputs& inputs = video ? videos : images;
    if ((!video && id != config.image_token_id) || inputs.empty()) {  // too few inputs: found when the runs are made
      ++row;
      continue;
    }
    const int64_t tokens = inputs.front().patches() / (merge * merge);
    const bool grouped = video && is_qwen3(config.family);
    Rows block{row, row};
    for (int64_t seen = 0; block.end < sequence.rows() && seen < tokens; ++block.end) {
      const bool placeholder = sequence.ids[static_cast<size_t>(block.end)] == id;
      if (!placeholder && !grouped) break;
      seen += placeholder;
    }
    row = block.end;
    if (block.begin > 0 && sequence.ids[static_cast<size_t>(block.begin - 1)] == config.vision_start_token_id)
      --block.begin;
    if (block.end < sequence.rows() && sequence.ids[static_cast<size_t>(block.end)] == config.vision_end_token_id)
      ++block.end;
    sequence.blocks.push_back(block);
    sequence.vision.push_back(inputs.take());
  }
}

}  // namespace

std::vector<Sequence> read_fields(std::span<const lf_named_tensor> named, const QwenVlConfig& config) {
  Fields fields(named, "Qwen-VL");
  fields.ignore({"position_ids", "position_ids_transformers", "text_position_ids", "mm_token_type_ids"});
  family::TokenRows rows = family::read_tokens(fields, config.text.vocab_size);
  const auto images_each = fields.integers("images_per_sequence", rows.count);
  const auto videos_each = fields.integers("videos_per_sequence", rows.count);
  Inputs images(fields, false, config), videos(fields, true, config);
  fields.refuse_the_rest();

  for (size_t i = 0; i < rows.sequences.size(); ++i) {
    const auto number = static_cast<size_t>(rows.numbers[i]);
    const int64_t image_at = images.taken(), video_at = videos.taken();
    deal(rows.sequences[i], images, videos, config);
    if (images_each && (*images_each)[number] != images.taken() - image_at)
      refuse_field("images_per_sequence", fmt::format("{} for sequence {}, got {}", images.taken() - image_at, number,
                                                      (*images_each)[number]));
    if (videos_each && (*videos_each)[number] != videos.taken() - video_at)
      refuse_field("videos_per_sequence", fmt::format("{} for sequence {}, got {}", videos.taken() - video_at, number,
                                                      (*videos_each)[number]));
  }
  if (!images.empty() || !videos.empty())
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("fields image_grid_thw and video_grid_thw: the tokens have place for {} pictures "
                                   "and {} videos, more are given",
                                   images.taken(), videos.taken()));
  return std::move(rows.sequences);
}

}  // namespace lf::qwen_vl
