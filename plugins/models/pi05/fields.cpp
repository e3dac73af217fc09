#include "pi05/fields.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "family/fields.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::pi05 {
namespace {

using family::refuse_field;
using Shape = std::vector<int64_t>;

constexpr int64_t kMostCameras = 64, kMostSteps = 1000;

std::string shown(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Fields of a batch, by name and shape, in which -1 stands for any length.
class Batch {
 public:
  explicit Batch(std::span<const lf_named_tensor> fields) : fields_(fields, "pi05") {}

  // f32, all finite; nothing where there is no such field.
  std::optional<std::span<const float>> floats(const std::string& name, const Shape& shape) {
    const lf_tensor* tensor = find(name, shape);
    if (tensor == nullptr) return std::nullopt;
    return family::finite_floats(name, *tensor);
  }
  std::span<const float> needed(const std::string& name, const Shape& shape) {
    const auto values = floats(name, shape);
    if (!values) refuse_field(name, "it to be there");
    return *values;
  }
  std::optional<std::vector<int64_t>> integers(const std::string& name, const Shape& shape) {
    const lf_tensor* tensor = find(name, shape);
    if (tensor == nullptr) return std::nullopt;
    if (tensor->dtype != LF_DTYPE_BOOL && tensor->dtype != LF_DTYPE_U8) return fields_.integers(name.c_str(), *tensor);
    const auto* bytes = static_cast<const uint8_t*>(tensor->data);
    return std::vector<int64_t>(bytes, bytes + sdk::element_count(*tensor));
  }
  int64_t number(const std::string& name, int64_t least, int64_t most, int64_t fallback) {
    const auto values = integers(name, {});
    if (!values) return fallback;
    if (values->front() < least || values->front() > most)
      refuse_field(name, fmt::format("a number from {} to {}, got {}", least, most, values->front()));
    return values->front();
  }
  void refuse_the_rest() const { fields_.refuse_the_rest(); }

 private:
  const lf_tensor* find(const std::string& name, const Shape& shape) {
    const lf_tensor* tensor = fields_.find(name.c_str());
    if (tensor == nullptr) return nullptr;
    const std::span<const int64_t> got(tensor->shape, static_cast<size_t>(tensor->ndim));
    bool fits = got.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || got[i] == shape[i];
    if (!fits) refuse_field(name, fmt::format("{} (-1: any), got {}", shown(shape), shown(got)));
    return tensor;
  }

  family::Fields fields_;
};

// What sample `number` of `values` has, of n samples.
template <typename T>
std::span<const T> part(std::span<const T> values, size_t number, size_t n) {
  const size_t each = values.size() / n;
  return values.subspan(number * each, each);
}

void read_images(Batch& fields, const Pi05Config& config, std::vector<PolicySample>& samples) {
  const auto n = static_cast<int64_t>(samples.size()), side = config.image_size;
  for (int64_t camera = 0; camera < kMostCameras; ++camera) {
    const auto pixels = fields.floats(fmt::format("image.{}", camera), {n, 3, side, side});
    if (!pixels) return;
    const auto mask = fields.integers(fmt::format("image_mask.{}", camera), {n});
    for (size_t b = 0; b < samples.size(); ++b) {
      if (mask && (*mask)[b] == 0) continue;
      const std::span<const float> image = part(*pixels, b, samples.size());
      append_image(samples[b], config, [&](int64_t channel, int64_t y, int64_t x) {
        return image[static_cast<size_t>((channel * side + y) * side + x)];
      });
    }
  }
}

void read_prompts(Batch& fields, const Pi05Config& config, std::vector<PolicySample>& samples) {
  const auto n = static_cast<int64_t>(samples.size());
  const auto tokens = fields.integers("tokens", {n, -1});
  if (!tokens) refuse_field("tokens", "it to be there");
  const auto length = static_cast<int64_t>(tokens->size()) / n;
  const auto mask = fields.integers("token_mask", {n, length});
  for (size_t i = 0; i < tokens->size(); ++i) {
    if (mask && (*mask)[i] == 0) continue;
    const int64_t id = (*tokens)[i];
    if (id < 0 || id >= config.vocabulary)
      refuse_field("tokens", fmt::format("ids from 0 to {}, got {}", config.vocabulary - 1, id));
    samples[i / static_cast<size_t>(length)].tokens.push_back(id);
  }
}

}  // namespace

std::vector<PolicySample> read_fields(std::span<const lf_named_tensor> given, const Pi05Config& config) {
  Batch fields(given);
  const std::span<const float> times = fields.needed("time", {-1});
  if (times.empty()) refuse_field("time", "one or more samples");
  const auto n = static_cast<int64_t>(times.size());
  const Shape chunk = {n, config.horizon, config.action_columns};
  const std::span<const float> actions = fields.needed("actions", chunk), noise = fields.needed("noise", chunk);
  const auto padded = fields.integers("action_is_pad", {n, config.horizon});
  const int64_t counted = fields.number("action_dim", 1, config.action_columns, config.action_dim);
  const int64_t steps = fields.number("sampling_steps", 1, kMostSteps, 0);

  std::vector<PolicySample> samples(times.size());
  for (size_t b = 0; b < samples.size(); ++b) {
    PolicySample& sample = samples[b];
    if (times[b] < 0 || times[b] > 1) refuse_field("time", fmt::format("times from 0 to 1, got {}", times[b]));
    sample.source = static_cast<int64_t>(b);
    sample.time = times[b];
    sample.counted_columns = counted;
    const std::span<const float> own_noise = part(noise, b, samples.size());
    put_actions(sample, part(actions, b, samples.size()), own_noise);
    for (int64_t row = 0; row < config.horizon; ++row)
      sample.valid.push_back(
          padded && (*padded)[b * static_cast<size_t>(config.horizon) + static_cast<size_t>(row)] != 0 ? 0 : 1);
    sample.sampling_steps = steps;
    if (steps > 0) sample.noise.assign(own_noise.begin(), own_noise.end());
  }
  read_images(fields, config, samples);
  read_prompts(fields, config, samples);
  fields.refuse_the_rest();
  return samples;
}

}  // namespace lf::pi05
