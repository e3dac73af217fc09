#include "diffusion/latent_samples.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "diffusion/model_time.h"
#include "diffusion/purposes.h"
#include "diffusion/tensor_file.h"
#include "family/conversation.h"
#include "family/draws.h"
#include "family/sample_place.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(LF_E_DATA, reason); }

std::string latent_file(std::string_view json) {
  std::string path;
  const std::vector<family::Message> messages = family::parse_conversation(json);
  for (const family::Message& message : messages) {
    const bool answer = &message == &messages.back();
    for (const family::Item& item : message.content) {
      if (std::holds_alternative<family::TextItem>(item)) continue;
      if (!answer || message.role != "assistant")
        refuse(
            "messages: a picture that is given with the prompt stands in the answer's file, as condition.0; "
            "expected one picture or video, in the last message, the assistant's");
      if (!path.empty()) refuse("messages: expected one picture or video in the answer, got two");
      if (const auto* image = std::get_if<family::ImageItem>(&item)) path = image->path;
      if (const auto* video = std::get_if<family::VideoItem>(&item)) path = video->path;
      if (path.empty()) refuse("messages: expected a file of latents, got frames");
    }
  }
  if (path.empty())
    refuse("messages: expected a picture or video in the last message, the assistant's: the file of latents");
  return path;
}

Grid grid_of(const TensorFile& file, const std::string& name, int64_t channels, const std::vector<int64_t>& patch) {
  const std::vector<int64_t>& shape = file.shape(name);
  const bool video = shape.size() == 4;
  if (shape.size() != 3 && !video)
    refuse(fmt::format("{}: expected [channels, height, width] or [channels, frames, height, width], got [{}]", name,
                       fmt::join(shape, ", ")));
  Grid grid{shape[0], video ? shape[1] : 1, shape[video ? 2 : 1], shape[video ? 3 : 2]};
  if (grid.channels != channels)
    refuse(fmt::format("{}: the model's latents have {} channels, got {}", name, channels, grid.channels));
  if (grid.frames % patch[0] != 0 || grid.height % patch[1] != 0 || grid.width % patch[2] != 0)
    refuse(fmt::format("{}: expected frames, height and width in multiples of {}, got {} x {} x {}", name,
                       fmt::join(patch, ", "), grid.frames, grid.height, grid.width));
  return grid;
}

int64_t rows_of(const Grid& grid, const std::vector<int64_t>& patch) {
  return grid.frames / patch[0] * (grid.height / patch[1]) * (grid.width / patch[2]);
}

void append_rows(std::vector<float>& rows, const std::vector<float>& values, const Grid& grid,
                 const std::vector<int64_t>& patch, PatchOrder order) {
  for (const int64_t place : patch_places(grid, patch, order)) rows.push_back(values[static_cast<size_t>(place)]);
}

}  // namespace

LatentSamples::LatentSamples(const DiffusionConfig& config, const Options& options, uint64_t seed)
    : config_(config), options_(options), seed_(seed), schedule_(make_schedule(options.schedule)) {
  if (options.null_text.empty()) return;
  TensorFile file(options.null_text);
  const std::vector<int64_t>& shape = file.shape("context");
  if (shape.size() != 2 || shape[1] != config.text_columns)
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: context: expected [rows, {}], got [{}]", options.null_text,
                                                 config.text_columns, fmt::join(shape, ", ")));
  null_context_ = file.read("context");
  if (config.pooled_columns == 0) return;
  null_pooled_ = file.read("pooled");
  if (static_cast<int64_t>(null_pooled_.size()) != config.pooled_columns)
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: pooled: expected [{}], got {} values", options.null_text,
                                                 config.pooled_columns, null_pooled_.size()));
}

// Rows of zeros behind the text are equal keys: one of them stands for all (key_bias of the columns).
void LatentSamples::put_text(PackedSample& sample, std::vector<float> context) const {
  const auto columns = static_cast<size_t>(config_.text_columns);
  if (options_.text_length > 0) {
    const auto zero = [&](size_t row) {
      return std::all_of(context.begin() + static_cast<std::ptrdiff_t>(row * columns),
                         context.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns),
                         [](float v) { return v == 0; });
    };
    size_t rows = context.size() / columns;
    while (rows > 0 && zero(rows - 1)) --rows;
    context.resize(rows * columns);
    const int64_t zeros = options_.text_length - static_cast<int64_t>(rows);
    if (zeros < 0)
      refuse(fmt::format("context: {} rows of text; model.options.text_length is {}", rows, options_.text_length));
    if (zeros > 0) {
      context.resize(context.size() + columns, 0.0f);
      sample.repeats_of_last = zeros;
    }
  }
  sample.text_rows = static_cast<int64_t>(context.size() / columns);
  sample.text = std::move(context);
}

PackedSample LatentSamples::make(const lf_sample& given, bool values) const {
  return family::at_place(given, [&] {
    const std::string path = latent_file(sdk::view(given.json));
    TensorFile file(path);
    const auto unknown = file.others({"latents", "context", "pooled", "y"}, "condition.");
    if (!unknown.empty()) refuse(fmt::format("{}: the model has no use for a tensor \"{}\"", path, unknown.front()));
    const family::Draws draws(seed_, given.id, 0);
    const bool wan = config_.architecture == Architecture::kWan;
    const std::vector<int64_t> patch = config_.packing();
    const Grid grid = grid_of(file, "latents", config_.latent_channels(), patch);
    const int64_t rows = rows_of(grid, patch), frame_rows = rows / (grid.frames / patch[0]);
    if (!wan && grid.frames != 1) refuse(fmt::format("latents: {} frames; the model makes pictures", grid.frames));

    const auto level =
        options_.levels.begin + static_cast<int64_t>(draws.uniform(Purpose::kLevel) *
                                                     static_cast<double>(options_.levels.end - options_.levels.begin));
    const NoiseLevel& noise_level = schedule_[static_cast<size_t>(level)];
    const float time = model_time(config_.architecture, noise_level.time);
    const bool drop_text = draws.uniform(Purpose::kTextDropout) < options_.text_dropout;
    const bool clean_first = options_.first_frame > 0 && grid.frames > patch[0] &&
                             draws.uniform(Purpose::kFirstFrame) < options_.first_frame;

    PackedSample sample;
    sample.image_rows = rows;
    sample.wanted_begin = clean_first ? frame_rows : 0;
    sample.wanted_rows = rows - sample.wanted_begin;
    sample.weight = noise_level.weight;
    sample.times = {time};
    if (clean_first) {
      sample.times.push_back(model_time(config_.architecture, 0));
      sample.runs = {{frame_rows, 1}, {rows - frame_rows, 0}};
    } else {
      sample.runs = {{rows, 0}};
    }

    if (drop_text) {
      put_text(sample, null_context_);
    } else if (values || options_.text_length > 0) {  // how many rows are zeros is in the values
      put_text(sample, file.read("context"));
    } else {
      sample.text_rows = file.shape("context").front();
    }
    const std::vector<int64_t>& context = file.shape("context");
    if (context.size() != 2 || context[1] != config_.text_columns)
      refuse(fmt::format("{}: context: expected [rows, {}], got [{}]", path, config_.text_columns,
                         fmt::join(context, ", ")));
    if (config_.pooled_columns > 0) {
      if (file.shape("pooled") != std::vector<int64_t>{config_.pooled_columns})
        refuse(fmt::format("{}: pooled: expected [{}], got [{}]", path, config_.pooled_columns,
                           fmt::join(file.shape("pooled"), ", ")));
      if (values) sample.pooled = drop_text ? null_pooled_ : file.read("pooled");
    }
    if (config_.guidance) sample.guidance = scaled_guidance(static_cast<float>(options_.guidance));

    const bool flux = config_.architecture == Architecture::kFlux;
    Positions images;
    const auto add_picture = [&](int64_t frame, const Grid& of) {
      images.add_grid(frame, of.frames / patch[0], of.height / patch[1], of.width / patch[2],
                      config_.architecture == Architecture::kQwenImage);
    };
    add_picture(0, grid);
    int64_t text_begin = std::max(grid.height / patch[1], grid.width / patch[2]) / 2;

    if (values) {
      std::vector<float> latents = file.read("latents"), noise = draws.normal(Purpose::kNoise, grid.values());
      std::vector<float> noisy(latents.size()), target(latents.size());
      const size_t frame_values = static_cast<size_t>(grid.height * grid.width);
      for (size_t i = 0; i < latents.size(); ++i) {
        const bool clean =
            clean_first && i / frame_values % static_cast<size_t>(grid.frames) < static_cast<size_t>(patch[0]);
        noisy[i] = clean ? latents[i] : (1 - noise_level.sigma) * latents[i] + noise_level.sigma * noise[i];
        target[i] = noise[i] - latents[i];
      }
      const PatchOrder out_order = wan ? PatchOrder::kChannelLast : PatchOrder::kChannelFirst;
      append_rows(sample.target, target, grid, patch, out_order);
      sample.target.erase(sample.target.begin(), sample.target.begin() + sample.wanted_begin * config_.out_columns());
      sample.share.assign(static_cast<size_t>(sample.wanted_rows), 1.0f / static_cast<float>(sample.target.size()));
      Grid in_grid = grid;
      if (config_.in_channels > config_.out_channels && wan) {
        const Grid behind = grid_of(file, "y", config_.in_channels - config_.out_channels, patch);
        if (behind.frames != grid.frames || behind.height != grid.height || behind.width != grid.width)
          refuse(fmt::format("{}: y: expected the latents' frames, height and width", path));
        const std::vector<float> y = file.read("y");
        noisy.insert(noisy.end(), y.begin(), y.end());
        in_grid.channels = config_.in_channels;
      }
      append_rows(sample.latents, noisy, in_grid, patch, PatchOrder::kChannelFirst);
    }
    for (int64_t k = 0; file.has(fmt::format("condition.{}", k)); ++k) {
      if (wan || flux) refuse(fmt::format("{}: condition.{}: the model takes no pictures", path, k));
      const std::string name = fmt::format("condition.{}", k);
      const Grid of = grid_of(file, name, config_.latent_channels(), patch);
      add_picture(k + 1, of);
      text_begin = std::max({text_begin, of.height / patch[1] / 2, of.width / patch[2] / 2});
      const int64_t more = rows_of(of, patch);
      sample.image_rows += more;
      if (k == 0) {
        add_conditions(sample, more, config_);
      } else {
        sample.runs.back().rows += more;
      }
      if (values) append_rows(sample.latents, file.read(name), of, patch, PatchOrder::kChannelFirst);
    }
    Positions positions;
    if (flux) positions.add_zeros(sample.text_rows);
    if (config_.architecture == Architecture::kQwenImage) positions.add_line(text_begin, sample.text_rows);
    for (int axis = 0; axis < 3; ++axis)
      positions.axes[axis].insert(positions.axes[axis].end(), images.axes[axis].begin(), images.axes[axis].end());
    sample.positions = positions.joined();
    return sample;
  });
}

}  // namespace lf::diffusion
