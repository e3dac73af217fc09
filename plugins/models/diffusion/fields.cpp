#include "diffusion/fields.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include <fmt/format.h>

#include "diffusion/model_time.h"
#include "family/fields.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::diffusion {
namespace {

using family::refuse_field;

std::string shown(const lf_tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, tensor.shape + tensor.ndim, ", "));
}

// The fields whose names begin with one prefix.
class Fields {
 public:
  Fields(std::span<const lf_named_tensor> fields, std::string prefix) : prefix_(std::move(prefix)) {
    for (const lf_named_tensor& field : fields) {
      const std::string name(sdk::view(field.name));
      if (!name.starts_with(prefix_)) continue;
      check_contiguous(field.tensor, name);
      tensors_[name.substr(prefix_.size())] = &field.tensor;
    }
  }

  // Null where there is none. -1 in the shape stands for any length but 0. Floats are finite.
  const lf_tensor* find(const std::string& name, int32_t dtype, std::vector<int64_t> shape) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return nullptr;
    const lf_tensor* tensor = found->second;
    tensors_.erase(found);
    bool fits = tensor->dtype == dtype && tensor->ndim == static_cast<int32_t>(shape.size());
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || tensor->shape[i] == shape[i];
    if (!fits)
      refuse_field(prefix_ + name, fmt::format("{} [{}] (-1: any), got {}", dtype == LF_DTYPE_I64 ? "i64" : "f32",
                                               fmt::join(shape, ", "), shown(*tensor)));
    if (sdk::element_count(*tensor) == 0)
      refuse_field(prefix_ + name, fmt::format("one or more along each axis, got {}", shown(*tensor)));
    if (dtype == LF_DTYPE_F32) family::finite_floats(prefix_ + name, *tensor);
    return tensor;
  }
  const lf_tensor& needed(const std::string& name, int32_t dtype, std::vector<int64_t> shape) {
    const lf_tensor* tensor = find(name, dtype, std::move(shape));
    if (tensor == nullptr) refuse_field(prefix_ + name, "it to be there");
    return *tensor;
  }
  void ignore(std::initializer_list<const char*> names) {
    for (const char* name : names) tensors_.erase(name);
  }
  void refuse_the_rest() const {
    if (!tensors_.empty())
      throw sdk::Failure(LF_E_DATA,
                         fmt::format("field {}{}: the model has no such input", prefix_, tensors_.begin()->first));
  }
  const std::string& prefix() const { return prefix_; }

 private:
  static void check_contiguous(const lf_tensor& tensor, const std::string& name) {
    int64_t stride = 1;
    for (int32_t i = tensor.ndim; i-- > 0; stride *= tensor.shape[i])
      if (tensor.shape[i] < 0 || (tensor.shape[i] > 1 && tensor.strides[i] != stride))
        refuse_field(name, "a contiguous tensor");
    if (tensor.device_uid != 0) refuse_field(name, "a tensor in host memory");
  }

  std::string prefix_;
  std::map<std::string, const lf_tensor*> tensors_;
};

const float* floats(const lf_tensor& tensor) { return static_cast<const float*>(tensor.data); }
const int64_t* integers(const lf_tensor& tensor) { return static_cast<const int64_t*>(tensor.data); }

std::vector<float> part(const lf_tensor& tensor, int64_t sample) {
  const int64_t each = sdk::element_count(tensor) / tensor.shape[0];
  return {floats(tensor) + sample * each, floats(tensor) + (sample + 1) * each};
}

// Of a field whose values lie from `least` to `most`.
void within(const std::string& field, const lf_tensor& tensor, double least, double most) {
  for (const float value : family::finite_floats(field, tensor))
    if (value < least || value > most)
      refuse_field(field, fmt::format("values from {} to {}, got {}", least, most, value));
}

constexpr double kLatest = 1000;           // a time of noise alone
constexpr int64_t kLargestSide = 1 << 20;  // products of three stay within 64 bits

// What every architecture's samples have.
std::vector<PackedSample> common(Fields& fields, const DiffusionConfig& config, int64_t batch) {
  fields.ignore({"latents", "noise", "sigma"});
  const lf_tensor& text = fields.needed("context", LF_DTYPE_F32, {batch, -1, config.text_columns});
  const lf_tensor* weight = fields.find("weight", LF_DTYPE_F32, {batch});
  const lf_tensor* time = fields.find("timestep", LF_DTYPE_F32, {batch});
  if (weight != nullptr) within(fields.prefix() + "weight", *weight, 0, std::numeric_limits<float>::max());
  if (time != nullptr) within(fields.prefix() + "timestep", *time, 0, kLatest);
  std::vector<PackedSample> samples(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    PackedSample& sample = samples[static_cast<size_t>(b)];
    sample.text_rows = text.shape[1];
    sample.text = part(text, b);
    if (weight != nullptr) sample.weight = floats(*weight)[b];
    if (time != nullptr) sample.times = {model_time(config.architecture, floats(*time)[b])};
  }
  return samples;
}

// Rows that were packed before: [B, rows, columns].
void take_rows(PackedSample& sample, const lf_tensor& noisy, const lf_tensor& target, int64_t b, int64_t& base) {
  sample.latents = part(noisy, b);
  sample.target = part(target, b);
  sample.image_rows = sample.wanted_rows = noisy.shape[1];
  sample.share.assign(static_cast<size_t>(noisy.shape[1]), 1.0f / static_cast<float>(sample.target.size()));
  for (size_t i = 0; i < sample.target.size(); ++i) sample.places.push_back(base++);
}

void need_time(const std::vector<PackedSample>& samples, const Fields& fields) {
  if (samples.front().times.empty()) refuse_field(fields.prefix() + "timestep", "it to be there");
}

std::vector<PackedSample> read_flux(Fields& fields, const DiffusionConfig& config, int64_t& base) {
  const lf_tensor& noisy = fields.needed("noisy_latents", LF_DTYPE_F32, {-1, -1, config.in_channels});
  const int64_t batch = noisy.shape[0], rows = noisy.shape[1];
  const lf_tensor& target = fields.needed("target", LF_DTYPE_F32, {batch, rows, config.in_channels});
  std::vector<PackedSample> samples = common(fields, config, batch);
  need_time(samples, fields);
  const int64_t text_rows = samples.front().text_rows;
  const lf_tensor& pooled = fields.needed("pooled", LF_DTYPE_F32, {batch, config.pooled_columns});
  const lf_tensor& image_ids = fields.needed("img_ids", LF_DTYPE_F32, {rows, 3});
  const lf_tensor& text_ids = fields.needed("txt_ids", LF_DTYPE_F32, {text_rows, 3});
  const lf_tensor* guidance = config.guidance ? &fields.needed("guidance", LF_DTYPE_F32, {batch}) : nullptr;
  Positions positions;
  for (const lf_tensor* ids : {&text_ids, &image_ids})
    for (int64_t i = 0; i < sdk::element_count(*ids); ++i) {
      const float id = floats(*ids)[i];
      if (!(id >= -kLargestSide && id <= kLargestSide) || id != static_cast<float>(static_cast<int64_t>(id)))
        refuse_field(fields.prefix() + (ids == &text_ids ? "txt_ids" : "img_ids"),
                     fmt::format("whole numbers, got {}", id));
      positions.axes[i % 3].push_back(static_cast<int64_t>(id));
    }
  for (int64_t b = 0; b < batch; ++b) {
    PackedSample& sample = samples[static_cast<size_t>(b)];
    take_rows(sample, noisy, target, b, base);
    sample.pooled = part(pooled, b);
    if (guidance != nullptr) sample.guidance = scaled_guidance(floats(*guidance)[b]);
    sample.runs = {{rows, 0}};
    sample.positions = positions.joined();
  }
  return samples;
}

std::vector<PackedSample> read_qwen_image(Fields& fields, const DiffusionConfig& config, int64_t& base) {
  const lf_tensor& noisy = fields.needed("noisy_latents", LF_DTYPE_F32, {-1, -1, config.in_channels});
  const int64_t batch = noisy.shape[0], rows = noisy.shape[1];
  const lf_tensor& target = fields.needed("target", LF_DTYPE_F32, {batch, rows, config.in_channels});
  const lf_tensor& shapes = fields.needed("img_shapes", LF_DTYPE_I64, {-1, 3});
  std::vector<PackedSample> samples = common(fields, config, batch);
  need_time(samples, fields);
  const int64_t text_rows = samples.front().text_rows;
  const lf_tensor* mask = fields.find("context_mask", LF_DTYPE_I64, {batch, text_rows});

  Positions images;
  int64_t text_begin = 0, edit_rows = 0;
  for (int64_t k = 0; k < shapes.shape[0]; ++k) {
    const int64_t* side = integers(shapes) + 3 * k;
    for (int i = 0; i < 3; ++i)
      if (side[i] < 1 || side[i] > kLargestSide)
        refuse_field(fields.prefix() + "img_shapes", fmt::format("sides from 1 to {}, got {}", kLargestSide, side[i]));
    images.add_grid(k, side[0], side[1], side[2], true);
    text_begin = std::max({text_begin, side[1] / 2, side[2] / 2});
    if (k > 0) edit_rows += side[0] * side[1] * side[2];
  }
  if (images.axes[0].size() != static_cast<size_t>(rows + edit_rows))
    refuse_field(fields.prefix() + "img_shapes", fmt::format("a first picture of {} rows, got {}", rows,
                                                             static_cast<int64_t>(images.axes[0].size()) - edit_rows));
  const lf_tensor* edit =
      edit_rows > 0 ? &fields.needed("edit_latents", LF_DTYPE_F32, {batch, edit_rows, config.in_channels}) : nullptr;

  for (int64_t b = 0; b < batch; ++b) {
    PackedSample& sample = samples[static_cast<size_t>(b)];
    take_rows(sample, noisy, target, b, base);
    sample.runs = {{rows, 0}};
    if (edit != nullptr) {
      const std::vector<float> given = part(*edit, b);
      sample.latents.insert(sample.latents.end(), given.begin(), given.end());
      sample.image_rows += edit_rows;
      add_conditions(sample, edit_rows, config);
    }
    Positions positions;
    std::vector<float> kept;
    for (int64_t row = 0; row < text_rows; ++row) {
      if (mask != nullptr && integers(*mask)[b * text_rows + row] == 0) continue;
      positions.add_line(text_begin + row, 1);
      kept.insert(kept.end(), sample.text.begin() + row * config.text_columns,
                  sample.text.begin() + (row + 1) * config.text_columns);
    }
    if (kept.empty()) refuse_field(fields.prefix() + "context_mask", fmt::format("a row that counts in sample {}", b));
    sample.text = std::move(kept);
    sample.text_rows = static_cast<int64_t>(positions.axes[0].size());
    for (int axis = 0; axis < 3; ++axis)
      positions.axes[axis].insert(positions.axes[axis].end(), images.axes[axis].begin(), images.axes[axis].end());
    sample.positions = positions.joined();
  }
  return samples;
}

// A value per row out of a mask that broadcasts over [B, C, F, H, W]; the same for all channels.
std::vector<bool> rows_that_count(const lf_tensor& mask, int64_t b, const Grid& grid,
                                  const std::vector<int64_t>& places, int64_t columns, const std::string& name) {
  const int64_t sides[] = {0, grid.channels, grid.frames, grid.height, grid.width};
  if (mask.ndim != 5 || mask.dtype != LF_DTYPE_F32) refuse_field(name, "f32 with five axes");
  for (int i = 1; i < 5; ++i)
    if (mask.shape[i] != 1 && mask.shape[i] != sides[i]) refuse_field(name, "a shape that broadcasts over target");
  const auto value = [&](int64_t place) {
    int64_t at = 0, rest = place;
    int64_t index[5] = {b, 0, 0, 0, 0};
    for (int i = 4; i > 0; --i) {
      index[i] = rest % sides[i];
      rest /= sides[i];
    }
    for (int i = 0; i < 5; ++i) at = at * mask.shape[i] + (mask.shape[i] == 1 ? 0 : index[i]);
    return floats(mask)[at];
  };
  std::vector<bool> counts;
  for (size_t row = 0; row * static_cast<size_t>(columns) < places.size(); ++row) {
    const float first = value(places[row * static_cast<size_t>(columns)]);
    for (int64_t c = 0; c < columns; ++c)
      if (const float v = value(places[row * static_cast<size_t>(columns) + static_cast<size_t>(c)]);
          v != first || (v != 0 && v != 1))
        refuse_field(name, "0 or 1, the same within each patch");
    counts.push_back(first == 1);
  }
  return counts;
}

std::vector<PackedSample> read_wan(Fields& fields, const DiffusionConfig& config, int64_t& base) {
  const lf_tensor& noisy = fields.needed("noisy_latents", LF_DTYPE_F32, {-1, config.out_channels, -1, -1, -1});
  const int64_t batch = noisy.shape[0];
  const Grid grid{config.out_channels, noisy.shape[2], noisy.shape[3], noisy.shape[4]};
  const std::vector<int64_t>& patch = config.patch_sizes;
  if (grid.frames % patch[0] != 0 || grid.height % patch[1] != 0 || grid.width % patch[2] != 0)
    refuse_field(fields.prefix() + "noisy_latents", fmt::format("frames, height and width in multiples of {}, got {}",
                                                                fmt::join(patch, ", "), shown(noisy)));
  const lf_tensor& target =
      fields.needed("target", LF_DTYPE_F32, {batch, config.out_channels, grid.frames, grid.height, grid.width});
  const int64_t more = config.in_channels - config.out_channels;
  const lf_tensor* y =
      more > 0 ? &fields.needed("y", LF_DTYPE_F32, {batch, more, grid.frames, grid.height, grid.width}) : nullptr;
  std::vector<PackedSample> samples = common(fields, config, batch);
  const int64_t columns = config.out_columns(), rows = grid.values() / columns;
  const lf_tensor* token_time = fields.find("token_timestep", LF_DTYPE_F32, {batch, rows});
  if (token_time != nullptr) within(fields.prefix() + "token_timestep", *token_time, 0, kLatest);
  const lf_tensor* mask = fields.find("loss_mask", LF_DTYPE_F32, {-1, -1, -1, -1, -1});
  if (mask != nullptr && mask->shape[0] != 1 && mask->shape[0] != batch)
    refuse_field(fields.prefix() + "loss_mask", "a shape that broadcasts over target");
  if (token_time == nullptr) need_time(samples, fields);
  const Grid in_grid{config.in_channels, grid.frames, grid.height, grid.width};
  const std::vector<int64_t> in_places = patch_places(in_grid, patch, PatchOrder::kChannelFirst);
  const std::vector<int64_t> out_places = patch_places(grid, patch, PatchOrder::kChannelLast);
  Positions positions;
  positions.add_grid(0, grid.frames / patch[0], grid.height / patch[1], grid.width / patch[2], false);

  for (int64_t b = 0; b < batch; ++b) {
    PackedSample& sample = samples[static_cast<size_t>(b)];
    std::vector<float> values = part(noisy, b);
    if (y != nullptr) {
      const std::vector<float> given = part(*y, b);
      values.insert(values.end(), given.begin(), given.end());
    }
    sample.image_rows = sample.wanted_rows = rows;
    for (const int64_t place : in_places) sample.latents.push_back(values[static_cast<size_t>(place)]);
    const std::vector<float> wanted = part(target, b);
    for (const int64_t place : out_places) {
      sample.target.push_back(wanted[static_cast<size_t>(place)]);
      sample.places.push_back(base + place);
    }
    base += grid.values();
    std::vector<bool> counts(static_cast<size_t>(rows), true);
    if (mask != nullptr)
      counts =
          rows_that_count(*mask, mask->shape[0] == 1 ? 0 : b, grid, out_places, columns, fields.prefix() + "loss_mask");
    const auto n = std::count(counts.begin(), counts.end(), true);
    if (n == 0) refuse_field(fields.prefix() + "loss_mask", "something that counts");
    for (const bool row : counts) sample.share.push_back(row ? 1.0f / static_cast<float>(n * columns) : 0.0f);
    if (token_time != nullptr) {
      sample.times.clear();
      for (int64_t row = 0; row < rows; ++row) add_time(sample, floats(*token_time)[b * rows + row], 1);
    } else {
      sample.runs = {{rows, 0}};
    }
    sample.positions = positions.joined();
  }
  return samples;
}

}  // namespace

std::vector<PackedSample> read_fields(std::span<const lf_named_tensor> named, const DiffusionConfig& config) {
  std::vector<std::string> prefixes;
  for (const lf_named_tensor& field : named) {
    const std::string name(sdk::view(field.name));
    const size_t dot = name.find('.');
    const std::string prefix = dot == std::string::npos ? "" : name.substr(0, dot + 1);
    if (std::find(prefixes.begin(), prefixes.end(), prefix) == prefixes.end()) prefixes.push_back(prefix);
  }
  std::sort(prefixes.begin(), prefixes.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  if (prefixes.size() > 1 && prefixes.front().empty())
    throw sdk::Failure(LF_E_DATA, "fields: expected all of them numbered, or none");
  std::vector<PackedSample> all;
  int64_t base = 0;
  for (const std::string& prefix : prefixes) {
    Fields fields(named, prefix);
    std::vector<PackedSample> some = config.architecture == Architecture::kFlux ? read_flux(fields, config, base)
                                     : config.architecture == Architecture::kQwenImage
                                         ? read_qwen_image(fields, config, base)
                                         : read_wan(fields, config, base);
    fields.refuse_the_rest();
    for (PackedSample& sample : some) all.push_back(std::move(sample));
  }
  return all;
}

}  // namespace lf::diffusion
