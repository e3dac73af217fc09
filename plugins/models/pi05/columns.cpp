#include "pi05/columns.h"

#include <iterator>
#include <utility>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::pi05 {
namespace {

// "place." before each of kOutputs; names of columns live as long as the model.
constexpr const char* kPlaces[] = {"place.velocity", "place.element_loss", "place.sampled_actions"};

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

family::Columns make_columns(std::span<const PolicySample> samples, const Pi05Config& config) {
  const auto n = static_cast<int64_t>(samples.size());
  std::vector<float> pixels, actions, target, times, counted, noise;
  std::vector<int64_t> tokens, visual_places, text_places, starts{0}, places;
  const int64_t steps = samples.empty() ? 0 : samples.front().sampling_steps;
  bool all_placed = n > 0;
  for (const PolicySample& sample : samples) {
    if (sample.sampling_steps != steps)
      throw sdk::Failure(LF_E_DATA, "sampling_steps: expected the same number for all samples of a micro-batch");
    append(pixels, sample.pixels);
    append(tokens, sample.tokens);
    int64_t row = starts.back();
    for (int64_t i = 0; i < sample.images * config.image_rows(); ++i) visual_places.push_back(row++);
    for (size_t i = 0; i < sample.tokens.size(); ++i) text_places.push_back(row++);
    starts.push_back(row);
    append(actions, sample.actions);
    append(target, sample.target);
    append(noise, sample.noise);
    times.push_back(sample.time);
    for (int64_t step = 0; step < config.horizon; ++step) {
      const bool valid = sample.valid[static_cast<size_t>(step)] != 0;
      for (int64_t column = 0; column < config.action_columns; ++column) {
        counted.push_back(valid && column < sample.counted_columns ? 1.0f : 0.0f);
        places.push_back((sample.source * config.horizon + step) * config.action_columns + column);
      }
    }
    all_placed = all_placed && sample.source >= 0;
  }
  const int64_t rows = n * config.horizon, columns = config.action_columns;
  const auto image_rows = static_cast<int64_t>(visual_places.size()), text_rows = static_cast<int64_t>(tokens.size());
  family::Columns out;
  using family::float_column;
  using family::integer_column;
  out.add("pixel_values", float_column(std::move(pixels), {image_rows, config.patch_columns()}));
  out.add("token_ids", integer_column(std::move(tokens), {text_rows}));
  out.add("visual_places", integer_column(std::move(visual_places), {image_rows}));
  out.add("text_places", integer_column(std::move(text_places), {text_rows}));
  out.add("prefix_starts", integer_column(std::move(starts), {n + 1}));
  out.add("actions", float_column(std::move(actions), {rows, columns}));
  out.add("target", float_column(std::move(target), {rows, columns}));
  out.add("time", float_column(std::move(times), {n}));
  out.add("counted", float_column(std::move(counted), {rows, columns}));
  if (steps > 0) {
    out.add("sampling_steps", integer_column({steps}, {1}));
    out.add("noise", float_column(std::move(noise), {rows, columns}));
  }
  static_assert(std::size(kPlaces) == std::size(kOutputs));
  if (all_placed)
    for (const char* name : kPlaces) out.add(name, integer_column(places, {rows, columns}));
  return out;
}

}  // namespace lf::pi05
