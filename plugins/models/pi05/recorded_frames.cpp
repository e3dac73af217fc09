#include "pi05/recorded_frames.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "family/draws.h"
#include "lf/plugin_sdk/guard.hpp"
#include "pi05/flow_time.h"

namespace lf::pi05 {
namespace {

robot::RobotOptions options_of(const nlohmann::json& options, const Pi05Config& config) {
  family::JsonFields fields(options, "model.options");
  robot::RobotOptions out = robot::read_robot_options(fields, options);
  if (!fields.has("max_prompt_tokens")) out.max_prompt_tokens = config.max_prompt_tokens;
  if (const auto unread = fields.unread(); !unread.empty())
    throw sdk::Failure(LF_E_INVALID, unread.front() + ": pi05 has no such option; it has " + robot::kRobotOptionNames);
  return out;
}

robot::RobotShape shape_of(const Pi05Config& config) {
  return {config.horizon, config.action_columns, config.image_size, config.views};
}

}  // namespace

RecordedFrames::RecordedFrames(const lf_host* host, const Pi05Config& config, const nlohmann::json& options,
                               std::string tokenizer, uint64_t seed)
    : config_(config),
      seed_(seed),
      frames_(host, shape_of(config), options_of(options, config), std::move(tokenizer)) {}

SampleSize RecordedFrames::size(const lf_sample& sample) const {
  const robot::RobotSampleSize size = frames_.size(sample);
  return {size.views, size.prompt_tokens, size.valid_actions};
}

PolicySample RecordedFrames::read(const lf_sample& sample) const {
  const robot::RobotSample frame = frames_.read(sample);
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
  const lf_sample* given = &sample;  // of a host that may not know the epoch
  const family::Draws draws(seed_, sample.id, LF_HAS(given, epoch) ? sample.epoch : 0);
  out.time = flow_time(config_, draws.uniform(kTime));
  put_actions(out, frame.actions, draws.normal(kNoise, config_.horizon * config_.action_columns));
  out.counted_columns = frame.own_dims;
  out.valid = frame.valid;
  return out;
}

}  // namespace lf::pi05
