#include "pi05/recorded_frames.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/draws.h"
#include "lf/plugin_sdk/guard.hpp"
#include "pi05/data/augmentation.h"
#include "pi05/flow_time.h"

namespace lf::pi05 {
namespace {

// What is trained is opened by its config.json, which says nothing of what the job has chosen here.
void tell_unstated(const robot::RobotOptions& options, const robot::ModelWays& ways, family::Findings& findings) {
  const auto tell = [&](const char* option, const std::string& field) {
    findings.remark(fmt::format(
        "model.options.{}: config.json says nothing of it, and lerobot would take another way; write {} into it",
        option, field));
  };
  if (!ways.relative_actions && options.relative_actions) tell("relative_actions", "\"use_relative_actions\": true");
  if (!ways.action_normalization && options.action_normalization != robot::Normalization::kQuantiles)
    tell("normalization", "\"normalization_mapping\"");
}

// Before rows are made of them: openpi does it to the resized pictures, too.
void augment_views(robot::RobotSample& frame, int64_t side, const family::Draws& draws) {
  uint64_t purpose = kPictures;
  for (size_t view = 0; view < frame.views.size(); ++view) {
    std::array<double, robot::kAugmentationDraws> uniform;
    for (double& number : uniform) number = draws.uniform(purpose++);
    if (frame.views[view].empty()) continue;
    const bool moves = frame.cameras[view].find("wrist") == std::string::npos;
    robot::augment(frame.views[view], side, robot::augmentation_of(uniform, side, moves));
  }
}

robot::RobotShape shape_of(const Pi05Config& config) {
  return {config.horizon, config.action_columns, config.image_size, config.views};
}

}  // namespace

robot::RobotOptions read_options(const nlohmann::json& options, const Pi05Config& config, family::Findings& findings) {
  family::JsonFields fields(options, "model.options", &findings);
  robot::RobotOptions out = robot::read_robot_options(fields, options, config.ways);
  if (!fields.has("max_prompt_tokens")) out.max_prompt_tokens = config.max_prompt_tokens;
  fields.refuse_unread(std::string("pi05 has no such option; it has ") + robot::kRobotOptionNames);
  tell_unstated(out, config.ways, findings);
  return out;
}

RecordedFrames::RecordedFrames(const lf_host* host, const Pi05Config& config, robot::RobotOptions options,
                               std::string tokenizer, uint64_t seed)
    : config_(config),
      seed_(seed),
      options_(std::move(options)),
      frames_(host, shape_of(config), options_, std::move(tokenizer)) {}

SampleSize RecordedFrames::size(const lf_sample& sample) const {
  const robot::RobotSampleSize size = frames_.size(sample);
  return {size.views, size.prompt_tokens, size.valid_actions};
}

PolicySample RecordedFrames::read(const lf_sample& sample) const {
  robot::RobotSample frame = frames_.read(sample);
  const lf_sample* given = &sample;  // of a host that may not know the epoch
  const family::Draws draws(seed_, sample.id, LF_HAS(given, epoch) ? sample.epoch : 0);
  if (options_.augment) augment_views(frame, config_.image_size, draws);
  PolicySample out;
  for (const std::vector<uint8_t>& rgb : frame.views) {
    if (rgb.empty()) continue;
    append_image(out, config_, [&](int64_t channel, int64_t y, int64_t x) {
      return static_cast<float>(rgb[static_cast<size_t>((y * config_.image_size + x) * 3 + channel)]) / 127.5f - 1;
    });
  }
  out.tokens.assign(frame.prompt.begin(), frame.prompt.end());
  for (const int64_t token : out.tokens)
    if (token >= config_.vocabulary)
      throw sdk::Failure(LF_E_INVALID, "model.tokenizer: token " + std::to_string(token) + "; the model has " +
                                           std::to_string(config_.vocabulary) + " (vocab_size)");
  out.time = flow_time(config_, draws.uniform(kTime));
  put_actions(out, frame.actions, draws.normal(kNoise, config_.horizon * config_.action_columns));
  out.counted_columns = options_.own_columns_alone ? frame.own_dims : config_.action_columns;
  out.valid = frame.valid;
  return out;
}

}  // namespace lf::pi05
