#include "diffusion/latent_samples.h"

#include <algorithm>
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

[[noreturn]] void refuse_line(const std::string& reason) {
  throw sdk::Failure(LF_E_DATA, "messages: " + reason + "; plugins/models/diffusion/README.md shows a line");
}

std::string latent_file(std::string_view json) {
  std::string path;
  const std::vector<family::Message> messages = family::parse_conversation(json);
  for (const family::Message& message : messages) {
    const bool answer = &message == &messages.back();
    for (const family::Item& item : message.content) {
      if (std::holds_alternative<family::TextItem>(item)) continue;
      if (!answer || message.role != "assistant")
        refuse_line(
            "expected one picture or video, in the last message, the assistant's, got one before it (a picture that is "
            "given with the prompt stands in the answer's file, as condition.0)");
      if (!path.empty()) refuse_line("expected one picture or video in the answer, got two");
      if (const auto* image = std::get_if<family::ImageItem>(&item)) path = image->path;
      if (const auto* video = std::get_if<family::VideoItem>(&item)) path = video->path;
      if (path.empty()) refuse_line("expected a file of latents, got frames");
    }
  }
  if (path.empty())
    refuse_line("expected a picture or video in the last message, the assistant's: the file of latents, got none");
  return path;
}

Grid grid_of(const TensorFile& file, const std::string& name, int64_t channels, const std::vector<int64_t>& patch) {
  const std::vector<int64_t>& shape = file.shape(name);
  const bool video = shape.size() == 4;
  if (shape.size() != 3 && !video)
    file.refuse(fmt::format("{}: expected [channels, height, width] or [channels, frames, height, width], got [{}]",
                            name, fmt::join(shape, ", ")));
  Grid grid{shape[0], video ? shape[1] : 1, shape[video ? 2 : 1], shape[video ? 3 : 2]};
  if (grid.channels != channels)
    file.refuse(fmt::format("{}: expected the {} channels of the model's, got {}", name, channels, grid.channels));
  if (grid.frames % patch[0] != 0 || grid.height % patch[1] != 0 || grid.width % patch[2] != 0)
    file.refuse(fmt::format("{}: expected frames, height and width in multiples of {}, got {} x {} x {}", name,
                            fmt::join(patch, ", "), grid.frames, grid.height, grid.width));
  return grid;
}

// Of what is put behind the noisy latents.
int64_t channels_behind(const DiffusionConfig& config) {
  return config.architecture == Architecture::kWan ? config.in_channels - config.out_channels : 0;
}

int64_t rows_of(const Grid& grid, const std::vector<int64_t>& patch) {
  return grid.frames / patch[0] * (grid.height / patch[1]) * (grid.width / patch[2]);
}

// What is put behind the noisy latents: there where the model wants it, of the latents' sizes, and only there.
void check_behind(const TensorFile& file, const Grid& latents, int64_t channels, const std::vector<int64_t>& patch) {
  if (channels == 0) {
    if (file.has("y"))
      file.refuse("y: expected no such tensor, for the model takes nothing behind its latents, got one");
    return;
  }
  const Grid behind = grid_of(file, "y", channels, patch);
  if (behind.frames != latents.frames || behind.height != latents.height || behind.width != latents.width)
    file.refuse(fmt::format("y: expected the latents' {} x {} x {} frames, height and width, got {} x {} x {}",
                            latents.frames, latents.height, latents.width, behind.frames, behind.height, behind.width));
}

// How many pictures are given: condition.0, condition.1, ... without a gap.
int64_t conditions_of(const TensorFile& file) {
  const std::vector<std::string> named = file.beginning("condition.");
  for (size_t k = 0; k < named.size(); ++k)
    if (!file.has(fmt::format("condition.{}", k)))
      file.refuse(fmt::format("{}: expected pictures numbered from condition.0 without a gap, got no condition.{}",
                              named.back(), k));
  return static_cast<int64_t>(named.size());
}

void append_rows(std::vector<float>& rows, const std::vector<float>& values, const Grid& grid,
                 const std::vector<int64_t>& patch, PatchOrder order) {
  for (const int64_t place : patch_places(grid, patch, order)) rows.push_back(values[static_cast<size_t>(place)]);
}

}  // namespace

LatentSamples::LatentSamples(const DiffusionConfig& config, const Options& options, uint64_t seed)
    : config_(config), options_(options), seed_(seed), schedule_(make_schedule(options.schedule)) {
  if (!options.null_text.empty()) read_null_text();
}

void LatentSamples::read_null_text() {
  try {
    TensorFile file(options_.null_text);
    const std::vector<int64_t>& shape = file.shape("context");
    if (shape.size() != 2 || shape[1] != config_.text_columns)
      file.refuse(fmt::format("context: expected [rows, {}], got [{}]", config_.text_columns, fmt::join(shape, ", ")));
    null_context_ = file.read("context");
    PackedSample fits;
    put_text(fits, null_context_, file);
    if (config_.pooled_columns == 0) return;
    null_pooled_ = file.read("pooled");
    if (static_cast<int64_t>(null_pooled_.size()) != config_.pooled_columns)
      file.refuse(fmt::format("pooled: expected [{}], got {} values", config_.pooled_columns, null_pooled_.size()));
  } catch (const sdk::Failure& failure) {
    throw sdk::Failure(LF_E_INVALID, fmt::format("model.options.null_text: {}", failure.what()));
  }
}

// Rows of zeros behind the text are equal keys: one of them stands for all (key_bias of the columns).
void LatentSamples::put_text(PackedSample& sample, std::vector<float> context, const TensorFile& file) const {
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
      file.refuse(fmt::format("context: expected at most the {} rows of text of model.options.text_length, got {}",
                              options_.text_length, rows));
    if (zeros > 0) {
      context.resize(context.size() + columns, 0.0f);
      sample.repeats_of_last = zeros;
    }
  }
  sample.text_rows = static_cast<int64_t>(context.size() / columns);
  sample.text = std::move(context);
}

namespace {

// What chance says of one sample.
struct Chances {
  NoiseLevel level;
  bool drop_text = false, first_frame = false;
};

Chances chances_of(const family::Draws& draws, const Options& options, const std::vector<NoiseLevel>& schedule) {
  const auto levels = static_cast<double>(options.levels.end - options.levels.begin);
  const auto level = options.levels.begin + static_cast<int64_t>(draws.uniform(Purpose::kLevel) * levels);
  return {.level = schedule[static_cast<size_t>(level)],
          .drop_text = draws.uniform(Purpose::kTextDropout) < options.text_dropout,
          .first_frame = draws.uniform(Purpose::kFirstFrame) < options.first_frame};
}

// The time of every row, and which rows are predicted: all but those of a first frame that is given.
void put_times(PackedSample& sample, int64_t rows, int64_t given_rows, float time, float clean) {
  sample.image_rows = rows;
  sample.wanted_begin = given_rows;
  sample.wanted_rows = rows - given_rows;
  sample.times = {time};
  sample.runs = {{rows, 0}};
  if (given_rows == 0) return;
  sample.times.push_back(clean);
  sample.runs = {{given_rows, 1}, {rows - given_rows, 0}};
}

struct Mixed {
  std::vector<float> noisy, target;
};

// x_t = (1 - σ) x + σ noise, but x itself in the first `given_frames`; the target is noise - x.
Mixed mix(const std::vector<float>& latents, const std::vector<float>& noise, float sigma, const Grid& grid,
          int64_t given_frames) {
  Mixed out{std::vector<float>(latents.size()), std::vector<float>(latents.size())};
  const int64_t frame_values = grid.height * grid.width;
  for (size_t i = 0; i < latents.size(); ++i) {
    const bool given = static_cast<int64_t>(i) / frame_values % grid.frames < given_frames;
    out.noisy[i] = given ? latents[i] : (1 - sigma) * latents[i] + sigma * noise[i];
    out.target[i] = noise[i] - latents[i];
  }
  return out;
}

}  // namespace

void LatentSamples::put_conditioning(PackedSample& sample, TensorFile& file, bool drop_text, bool values) const {
  const std::vector<int64_t>& context = file.shape("context");
  if (context.size() != 2 || context[1] != config_.text_columns)
    file.refuse(fmt::format("context: expected [rows, {}], got [{}]", config_.text_columns, fmt::join(context, ", ")));
  if (drop_text) {
    put_text(sample, null_context_, file);
  } else if (values || options_.text_length > 0) {  // how many rows are zeros is in the values
    put_text(sample, file.read("context"), file);
  } else {
    sample.text_rows = context.front();
  }
  if (config_.pooled_columns > 0) {
    if (file.shape("pooled") != std::vector<int64_t>{config_.pooled_columns})
      file.refuse(fmt::format("pooled: expected [{}], got [{}]", config_.pooled_columns,
                              fmt::join(file.shape("pooled"), ", ")));
    if (values) sample.pooled = drop_text ? null_pooled_ : file.read("pooled");
  }
  if (config_.guidance) sample.guidance = scaled_guidance(static_cast<float>(options_.guidance));
}

void LatentSamples::put_latents(PackedSample& sample, TensorFile& file, const Grid& grid, const family::Draws& draws,
                                float sigma) const {
  const bool wan = config_.architecture == Architecture::kWan;
  const std::vector<int64_t> patch = config_.packing();
  const int64_t given_frames = sample.wanted_begin > 0 ? patch[0] : 0;
  Mixed mixed = mix(file.read("latents"), draws.normal(Purpose::kNoise, grid.values()), sigma, grid, given_frames);
  append_rows(sample.target, mixed.target, grid, patch, wan ? PatchOrder::kChannelLast : PatchOrder::kChannelFirst);
  sample.target.erase(sample.target.begin(), sample.target.begin() + sample.wanted_begin * config_.out_columns());
  sample.share.assign(static_cast<size_t>(sample.wanted_rows), 1.0f / static_cast<float>(sample.target.size()));
  Grid in_grid = grid;
  if (channels_behind(config_) > 0) {
    const std::vector<float> y = file.read("y");
    mixed.noisy.insert(mixed.noisy.end(), y.begin(), y.end());
    in_grid.channels = config_.in_channels;
  }
  append_rows(sample.latents, mixed.noisy, in_grid, patch, PatchOrder::kChannelFirst);
}

// Pictures given with the prompt, behind the rows of what is wanted. Returns their sizes.
std::vector<Grid> LatentSamples::put_conditions(PackedSample& sample, TensorFile& file, bool values) const {
  const std::vector<int64_t> patch = config_.packing();
  const int64_t count = conditions_of(file);
  if (count > 0 && config_.architecture != Architecture::kQwenImage)
    file.refuse("condition.0: expected no such tensor, for the model takes no pictures with its prompt, got one");
  std::vector<Grid> grids;
  int64_t rows = 0;
  for (int64_t k = 0; k < count; ++k) {
    const std::string name = fmt::format("condition.{}", k);
    grids.push_back(grid_of(file, name, config_.latent_channels(), patch));
    if (grids.back().frames != 1)
      file.refuse(fmt::format("{}: expected a picture, got {} frames", name, grids.back().frames));
    rows += rows_of(grids.back(), patch);
    if (values) append_rows(sample.latents, file.read(name), grids.back(), patch, PatchOrder::kChannelFirst);
  }
  if (rows > 0) add_conditions(sample, rows, config_);
  sample.image_rows += rows;
  return grids;
}

// Of the text where it attends together with the pictures, then of every picture, each a frame of its own.
std::vector<int64_t> LatentSamples::positions_of(int64_t text_rows, const std::vector<Grid>& pictures) const {
  const std::vector<int64_t> patch = config_.packing();
  const bool qwen_image = config_.architecture == Architecture::kQwenImage;
  Positions all;
  if (config_.architecture == Architecture::kFlux) all.add_zeros(text_rows);
  if (qwen_image) {
    int64_t first = 0;
    for (const Grid& of : pictures) first = std::max({first, of.height / patch[1] / 2, of.width / patch[2] / 2});
    all.add_line(first, text_rows);
  }
  for (size_t k = 0; k < pictures.size(); ++k)
    all.add_grid(static_cast<int64_t>(k), pictures[k].frames / patch[0], pictures[k].height / patch[1],
                 pictures[k].width / patch[2], qwen_image);
  return all.joined();
}

PackedSample LatentSamples::make(const lf_sample& given, bool values) const {
  return family::at_place(given, [&] {
    const std::string path = latent_file(sdk::view(given.json));
    TensorFile file(path);
    const auto unknown = file.others({"latents", "context", "pooled", "y"}, "condition.");
    if (!unknown.empty())
      file.refuse(
          fmt::format("expected tensors latents, context, pooled, y and condition.N, got \"{}\"", unknown.front()));
    const std::vector<int64_t> patch = config_.packing();
    const Grid grid = grid_of(file, "latents", config_.latent_channels(), patch);
    if (config_.architecture != Architecture::kWan && grid.frames != 1)
      file.refuse(fmt::format("latents: expected one frame, for the model makes pictures, got {}", grid.frames));
    check_behind(file, grid, channels_behind(config_), patch);

    const lf_sample* of_host = &given;  // which may not know the epoch
    const family::Draws draws(seed_, given.id, LF_HAS(of_host, epoch) ? given.epoch : 0);
    const Chances chances = chances_of(draws, options_, schedule_);
    const int64_t rows = rows_of(grid, patch), frames = grid.frames / patch[0];
    const bool first_frame = chances.first_frame && frames > 1;

    PackedSample sample;
    sample.weight = chances.level.weight;
    put_times(sample, rows, first_frame ? rows / frames : 0, model_time(config_.architecture, chances.level.time),
              model_time(config_.architecture, 0));
    put_conditioning(sample, file, chances.drop_text, values);
    if (values) put_latents(sample, file, grid, draws, chances.level.sigma);
    std::vector<Grid> pictures = put_conditions(sample, file, values);
    pictures.insert(pictures.begin(), grid);
    sample.positions = positions_of(sample.text_rows, pictures);
    return sample;
  });
}

}  // namespace lf::diffusion
