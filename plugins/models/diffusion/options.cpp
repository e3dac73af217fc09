#include "diffusion/options.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

using family::JsonFields;

constexpr int64_t kMostTextRows = 1 << 20;
constexpr int64_t kWanTextRows = 512;  // of UMT5 in the authors' code, zeros after the text's own

double share(JsonFields& fields, const char* name) {
  const double value = fields.number(name, 0);
  if (!(value >= 0 && value <= 1)) fields.refuse(name, "a number from 0 to 1");
  return value;
}

ScheduleOptions read_schedule(JsonFields& fields, bool wan) {
  ScheduleOptions schedule;
  const std::string kind = fields.text("schedule", wan ? "shift" : "exponential");
  if (kind != "shift" && kind != "exponential") fields.refuse("schedule", "\"shift\" or \"exponential\"");
  schedule.exponential = kind == "exponential";
  for (const char* name : {"mu", "terminal"})
    if (!schedule.exponential && fields.has(name)) fields.refuse(name, "nothing beside schedule = \"shift\"");
  if (schedule.exponential && fields.has("shift")) fields.refuse("shift", "nothing beside schedule = \"exponential\"");
  schedule.shift = fields.positive_number("shift", schedule.shift);
  schedule.mu = fields.number("mu", schedule.mu);
  if (!(std::abs(schedule.mu) <= 20)) fields.refuse("mu", "a number from -20 to 20");
  schedule.terminal = fields.number("terminal", schedule.terminal);
  if (!(schedule.terminal > 0 && schedule.terminal < 0.5)) fields.refuse("terminal", "a number above 0 and below 0.5");
  const std::string weight = fields.text("loss_weight", "bell");
  if (weight != "bell" && weight != "none") fields.refuse("loss_weight", "\"bell\" or \"none\"");
  schedule.bell_weights = weight == "bell";
  return schedule;
}

LevelRange read_levels(JsonFields& fields, const ScheduleOptions& schedule) {
  const std::string expert = fields.text("expert", "");
  if (!expert.empty() && fields.has("levels")) fields.refuse("levels", "nothing beside expert");
  if (expert.empty()) {
    if (fields.has("boundary")) fields.refuse("boundary", "expert beside it: \"high_noise\" or \"low_noise\"");
    const std::vector<int64_t> levels = fields.integers("levels", {0, kLevels});
    if (levels.size() == 2 && levels[0] >= 0 && levels[0] < levels[1] && levels[1] <= kLevels)
      return {levels[0], levels[1]};
    fields.refuse("levels", fmt::format("[begin, end) within [0, {}): 0 is noise", kLevels));
    return {0, kLevels};
  }
  if (!fields.has("boundary"))
    fields.refuse("boundary", "the time at which the other expert takes over, as a share of 1000 (0.9, 0.875)");
  const double boundary = fields.number("boundary", 0);
  if (expert != "high_noise" && expert != "low_noise") fields.refuse("expert", "\"high_noise\" or \"low_noise\"");
  if (!fields.sound({"expert", "boundary", "schedule", "shift", "mu", "terminal"})) return {0, kLevels};
  const std::vector<NoiseLevel> table = make_schedule(schedule);
  const LevelRange range = expert == "high_noise" ? high_noise(table, boundary) : low_noise(table, boundary);
  if (range.begin >= range.end) fields.refuse("boundary", "a time that leaves both experts some levels");
  return range;
}

}  // namespace

Options parse_options(std::string_view options_json, const DiffusionConfig& config, family::Findings& findings) {
  const nlohmann::json root = nlohmann::json::parse(options_json);
  JsonFields fields(root, "model.options", &findings);
  const bool config_is_sound = findings.empty();
  const bool wan = config.architecture == Architecture::kWan;
  Options options;
  options.schedule = read_schedule(fields, wan);
  options.levels = read_levels(fields, options.schedule);
  options.text_dropout = share(fields, "text_dropout");
  options.null_text = fields.text("null_text", "");
  if (options.text_dropout > 0 && options.null_text.empty())
    fields.refuse("null_text", "beside text_dropout, the file that holds the empty prompt's embedding",
                  {"text_dropout"});
  options.first_frame = share(fields, "first_frame");
  if (config_is_sound && options.first_frame > 0 && (!wan || config.in_channels != config.out_channels))
    fields.refuse("first_frame", "0: the model has no frame that can be given in its place");
  options.guidance = fields.positive_number("guidance", 1);
  if (config_is_sound && fields.has("guidance") && !config.guidance)
    fields.refuse("guidance", "nothing: the model takes none");
  options.text_length = fields.within("text_length", 0, kMostTextRows, wan ? kWanTextRows : 0);
  if (options.text_length > 0 && !wan) fields.refuse("text_length", "0: only Wan reads zeros after a text");
  fields.refuse_unread(
      "diffusion has no such option; it has schedule, shift, mu, terminal, loss_weight, expert, boundary, levels, "
      "text_dropout, null_text, first_frame, guidance, text_length");
  return options;
}

}  // namespace lf::diffusion
