#include "qwen_vl/processor/fields.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::qwen_vl {
namespace {

constexpr int64_t kLargestSide = 1 << 20;  // patches: products of three stay within 64 bits

[[noreturn]] void refuse(std::string_view field, const std::string& expected) {
  throw sdk::Failure(LF_E_DATA, fmt::format("field {}: expected {}", field, expected));
}

void check_contiguous(const lf_tensor& tensor, std::string_view field) {
  int64_t stride = 1;
  for (int32_t i = tensor.ndim; i-- > 0; stride *= tensor.shape[i])
    if (tensor.shape[i] < 0 || (tensor.shape[i] > 1 && tensor.strides[i] != stride))
      refuse(field, "a contiguous tensor");
  if (tensor.device_uid != 0) refuse(field, "a tensor in host memory");
}

class Fields {
 public:
  explicit Fields(std::span<const lf_named_tensor> fields) {
    for (const lf_named_tensor& field : fields) {
      check_contiguous(field.tensor, sdk::view(field.name));
      tensors_[std::string(sdk::view(field.name))] = &field.tensor;
    }
  }

  const lf_tensor* find(const char* name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return nullptr;
    const lf_tensor* tensor = found->second;
    tensors_.erase(found);
    return tensor;
  }
  std::vector<int64_t> integers(const char* name, const lf_tensor& tensor) const {
    const auto n = static_cast<size_t>(sdk::element_count(tensor));
    std::vector<int64_t> out(n);
    if (tensor.dtype == LF_DTYPE_I64) {
      std::copy_n(static_cast<const int64_t*>(tensor.data), n, out.begin());
    } else if (tensor.dtype == LF_DTYPE_I32) {
      std::copy_n(static_cast<const int32_t*>(tensor.data), n, out.begin());
    } else {
      refuse(name, "64 or 32 bit integers");
    }
    return out;
  }
  // Of a given length; nothing where there is no such field.
  std::optional<std::vector<int64_t>> integers(const char* name, int64_t length) {
    const lf_tensor* tensor = find(name);
    if (tensor == nullptr) return std::nullopt;
    if (sdk::element_count(*tensor) != length)
      refuse(name, fmt::format("{} values, got {}", length, sdk::element_count(*tensor)));
    return integers(name, *tensor);
  }
  void ignore(std::initializer_list<const char*> names) {
    for (const char* name : names) tensors_.erase(name);
  }
  void refuse_the_rest() const {
    if (!tensors_.empty())
      throw sdk::Failure(LF_E_DATA, fmt::format("field {}: Qwen-VL has no such input", tensors_.begin()->first));
  }

 private:
  std::map<std::string, const lf_tensor*, std::less<>> tensors_;
};

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
      refuse(grid == nullptr ? grid_name : pixel_name, "it beside the other of the two");
    if (grid == nullptr) return;
    const int64_t columns = config.vision.patch_columns();
    if (grid->ndim != 2 || grid->shape[1] != 3) refuse(grid_name, "[n, 3]");
    if (pixels->dtype != LF_DTYPE_F32 || pixels->ndim != 2 || pixels->shape[1] != columns)
      refuse(pixel_name, fmt::format("f32 [patches, {}]", columns));
    if (seconds != nullptr &&
        (seconds->dtype != LF_DTYPE_F32 || seconds->ndim != 1 || seconds->shape[0] != grid->shape[0]))
      refuse("second_per_grid_ts", fmt::format("f32 [{}]", grid->shape[0]));
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
          refuse(grid_name, fmt::format("sides from 1 to {}, got {}", kLargestSide, side));
      if ((!video && input.groups != 1) || input.height % merge != 0 || input.width % merge != 0)
        refuse(grid_name, fmt::format("sides in multiples of {}, and one group in a picture; got {} x {} x {}", merge,
                                      input.groups, input.height, input.width));
      if (seconds != nullptr) input.seconds_per_group = static_cast<const float*>(seconds->data)[i];
      if (input.patches() > pixels->shape[0] - row)
        refuse(pixel_name, fmt::format("as many rows as {} says, got {}", grid_name, pixels->shape[0]));
      input.source = ReadyRows{static_cast<const float*>(pixels->data) + row * columns};
      row += input.patches();
      inputs_.push_back(std::move(input));
    }
    if (row != pixels->shape[0])
      refuse(pixel_name, fmt::format("{} rows as {} says, got {}", row, grid_name, pixels->shape[0]));
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
  Fields fields(named);
  fields.ignore({"position_ids", "position_ids_transformers", "text_position_ids", "mm_token_type_ids"});
  const lf_tensor* input_ids = fields.find("input_ids");
  if (input_ids == nullptr || input_ids->ndim < 1 || input_ids->ndim > 2) refuse("input_ids", "[B, T] or [T]");
  const int64_t width = input_ids->shape[input_ids->ndim - 1], batch = input_ids->ndim == 2 ? input_ids->shape[0] : 1;
  const std::vector<int64_t> ids = fields.integers("input_ids", *input_ids);
  for (const int64_t id : ids)
    if (id < 0 || id >= config.text.vocab_size)
      refuse("input_ids", fmt::format("ids from 0 to {}, got {}", config.text.vocab_size - 1, id));
  const int64_t count = batch * width;
  const auto mask = fields.integers("attention_mask", count);
  const auto labels = fields.integers("labels", count);
  if (labels)
    for (const int64_t label : *labels)
      if (label != kUnsupervised && (label < 0 || label >= config.text.vocab_size))
        refuse("labels",
               fmt::format("{} or ids from 0 to {}, got {}", kUnsupervised, config.text.vocab_size - 1, label));

  std::vector<int64_t> starts;  // of the sequences, in flat rows
  for (int64_t b = 0; b <= batch; ++b) starts.push_back(b * width);
  if (const lf_tensor* given = fields.find("cu_seqlens")) {
    if (batch != 1) refuse("cu_seqlens", "one row of input_ids beside it");
    starts = fields.integers("cu_seqlens", *given);
    if (starts.size() < 2 || starts.front() != 0 || starts.back() != width ||
        !std::is_sorted(starts.begin(), starts.end()))
      refuse("cu_seqlens", fmt::format("ascending starts from 0 to {}", width));
  }
  const auto n_sequences = static_cast<int64_t>(starts.size()) - 1;
  const auto images_each = fields.integers("images_per_sequence", n_sequences);
  const auto videos_each = fields.integers("videos_per_sequence", n_sequences);
  Inputs images(fields, false, config), videos(fields, true, config);
  fields.refuse_the_rest();

  std::vector<Sequence> sequences;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    Sequence sequence;
    for (int64_t flat = starts[s]; flat < starts[s + 1]; ++flat) {
      const auto at = static_cast<size_t>(flat);
      if (mask && (*mask)[at] == 0) continue;
      sequence.ids.push_back(ids[at]);
      sequence.labels.push_back(labels ? (*labels)[at] : kUnsupervised);
      sequence.source_rows.push_back(flat);
    }
    if (sequence.ids.empty()) continue;  // all padding
    const int64_t image_at = images.taken(), video_at = videos.taken();
    deal(sequence, images, videos, config);
    if (images_each && (*images_each)[s] != images.taken() - image_at)
      refuse("images_per_sequence",
             fmt::format("{} for sequence {}, got {}", images.taken() - image_at, s, (*images_each)[s]));
    if (videos_each && (*videos_each)[s] != videos.taken() - video_at)
      refuse("videos_per_sequence",
             fmt::format("{} for sequence {}, got {}", videos.taken() - video_at, s, (*videos_each)[s]));
    sequences.push_back(std::move(sequence));
  }
  if (!images.empty() || !videos.empty())
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("fields image_grid_thw and video_grid_thw: the tokens have place for {} pictures "
                                   "and {} videos, more are given",
                                   images.taken(), videos.taken()));
  if (sequences.empty()) refuse("input_ids", "at least one row that attention_mask keeps");
  return sequences;
}

}  // namespace lf::qwen_vl
