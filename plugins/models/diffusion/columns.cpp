#include "diffusion/columns.h"

#include <algorithm>
#include <cmath>

namespace lf::diffusion {
namespace {

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

family::Columns make_columns(std::span<const PackedSample> samples, const DiffusionConfig& config) {
  const bool wan = config.architecture == Architecture::kWan;
  const auto n = static_cast<int64_t>(samples.size());
  std::vector<float> latents, text, pooled, guidance, times, key_bias, target, share, weight;
  std::vector<int64_t> text_starts{0}, image_starts{0}, time_starts{0}, runs, wanted, places;
  std::vector<int64_t> text_positions[3], image_positions[3];
  bool any_bias = false, all_placed = n > 0;
  for (const PackedSample& sample : samples) {
    append(latents, sample.latents);
    append(text, sample.text);
    append(pooled, sample.pooled);
    if (sample.guidance) guidance.push_back(*sample.guidance);
    for (const TimeRun& run : sample.runs) runs.insert(runs.end(), {run.rows, time_starts.back() + run.time});
    append(times, sample.times);
    time_starts.push_back(static_cast<int64_t>(times.size()));
    text_starts.push_back(text_starts.back() + sample.text_rows);
    image_starts.push_back(image_starts.back() + sample.image_rows);
    const int64_t first = wan ? 0 : sample.text_rows, all = first + sample.image_rows;
    for (int64_t axis = 0; axis < 3; ++axis) {
      const auto begin = sample.positions.begin() + axis * all;
      text_positions[axis].insert(text_positions[axis].end(), begin, begin + first);
      image_positions[axis].insert(image_positions[axis].end(), begin + first, begin + all);
    }
    key_bias.resize(static_cast<size_t>(text_starts.back()), 0.0f);
    if (sample.repeats_of_last > 1) {
      key_bias.back() = std::log(static_cast<float>(sample.repeats_of_last));
      any_bias = true;
    }
    wanted.insert(wanted.end(), {sample.wanted_begin, sample.wanted_rows});
    append(target, sample.target);
    append(share, sample.share);
    weight.push_back(static_cast<float>(sample.weight));
    append(places, sample.places);
    all_placed = all_placed && sample.has_source();
  }

  const int64_t image_rows = image_starts.back(), text_rows = text_starts.back();
  const auto wanted_rows = static_cast<int64_t>(share.size()), n_runs = static_cast<int64_t>(runs.size() / 2);
  std::vector<int64_t> positions;
  for (int axis = 0; axis < 3; ++axis) {
    append(positions, text_positions[axis]);
    append(positions, image_positions[axis]);
  }
  family::Columns out;
  using family::float_column;
  using family::integer_column;
  out.add("latents", float_column(std::move(latents), {image_rows, config.in_columns()}));
  out.add("text", float_column(std::move(text), {text_rows, config.text_columns}));
  if (config.pooled_columns > 0) out.add("pooled", float_column(std::move(pooled), {n, config.pooled_columns}));
  if (config.guidance) out.add("guidance", float_column(std::move(guidance), {n}));
  const auto n_times = static_cast<int64_t>(times.size());
  out.add("time", float_column(std::move(times), {n_times}));
  out.add("text_starts", integer_column(std::move(text_starts), {n + 1}));
  out.add("image_starts", integer_column(std::move(image_starts), {n + 1}));
  out.add("time_starts", integer_column(std::move(time_starts), {n + 1}));
  out.add("runs", integer_column(std::move(runs), {n_runs, 2}));
  out.add("positions", integer_column(std::move(positions), {3, (wan ? 0 : text_rows) + image_rows}));
  if (any_bias) out.add("key_bias", float_column(std::move(key_bias), {text_rows}));
  out.add("wanted", integer_column(std::move(wanted), {n, 2}));
  out.add("target", float_column(std::move(target), {wanted_rows, config.out_columns()}));
  out.add("share", float_column(std::move(share), {wanted_rows}));
  out.add("weight", float_column(std::move(weight), {n}));
  if (all_placed) out.add("place.prediction", integer_column(std::move(places), {wanted_rows, config.out_columns()}));
  return out;
}

}  // namespace lf::diffusion
