#include "pi05/data/robot_options.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace lf::robot {
namespace {

struct NormalizationName {
  Normalization kind;
  const char *option, *lerobot;
};
constexpr NormalizationName kNormalizations[] = {{Normalization::kQuantiles, "quantiles", "QUANTILES"},
                                                 {Normalization::kInnerQuantiles, "quantiles_10", "QUANTILE10"},
                                                 {Normalization::kRange, "min_max", "MIN_MAX"},
                                                 {Normalization::kMeanDeviation, "mean_std", "MEAN_STD"},
                                                 {Normalization::kNone, "none", "IDENTITY"}};

std::vector<std::string> texts(family::JsonFields& fields, const nlohmann::json& options, const char* name,
                               std::vector<std::string> fallback) {
  fields.ignore({name});
  if (!fields.has(name)) return fallback;
  const nlohmann::json& list = options.at(name);
  if (list.is_array() &&
      std::all_of(list.begin(), list.end(), [](const nlohmann::json& one) { return one.is_string(); }))
    return list.get<std::vector<std::string>>();
  fields.refuse(name, "a list of names");
  return fallback;
}

void read_cameras(family::JsonFields& fields, const nlohmann::json& options, RobotOptions& out) {
  out.cameras = texts(fields, options, "cameras", {});
  out.optional_cameras = texts(fields, options, "optional_cameras", {});
  for (const std::string& name : out.optional_cameras)
    if (std::find(out.cameras.begin(), out.cameras.end(), name) == out.cameras.end())
      fields.refuse("optional_cameras", "names that `cameras` lists too", {"cameras"});
  for (const std::string& name : out.cameras)
    if (!name.empty() && std::count(out.cameras.begin(), out.cameras.end(), name) > 1)
      fields.refuse("cameras", "each feature once");
}

constexpr const char* kOneSource =
    "what the model's config.json says ({}): who opens what is trained follows that; leave the option out, or change "
    "config.json";

void read_normalization(family::JsonFields& fields, const ModelWays& model, RobotOptions& out) {
  out.state_normalization = model.state_normalization.value_or(out.state_normalization);
  out.action_normalization = model.action_normalization.value_or(out.action_normalization);
  if (fields.has("normalization")) {
    const std::string name = fields.text("normalization", "");
    const auto found = std::find_if(std::begin(kNormalizations), std::end(kNormalizations),
                                    [&](const NormalizationName& one) { return name == one.option; });
    if (found == std::end(kNormalizations)) {
      fields.refuse("normalization", "\"quantiles\", \"quantiles_10\", \"min_max\", \"mean_std\" or \"none\"");
      return;
    }
    if ((model.state_normalization && *model.state_normalization != found->kind) ||
        (model.action_normalization && *model.action_normalization != found->kind))
      fields.refuse(
          "normalization",
          fmt::format(kOneSource, fmt::format("normalization_mapping: {} for states, {} for actions",
                                              name_of(out.state_normalization), name_of(out.action_normalization))));
    out.state_normalization = out.action_normalization = found->kind;
  }
}

void read_relative(family::JsonFields& fields, const nlohmann::json& options, const ModelWays& model,
                   RobotOptions& out) {
  out.relative_actions = fields.flag("relative_actions", model.relative_actions.value_or(false));
  if (model.relative_actions && out.relative_actions != *model.relative_actions)
    fields.refuse("relative_actions",
                  fmt::format(kOneSource, fmt::format("use_relative_actions: {}", *model.relative_actions)));
  if (!out.relative_actions && fields.has("relative_exclude"))
    fields.refuse("relative_exclude", "relative_actions = true beside it", {"relative_actions"});
  out.relative_exclude =
      texts(fields, options, "relative_exclude", model.relative_exclude.value_or(out.relative_exclude));
  if (out.relative_actions && model.relative_exclude && out.relative_exclude != *model.relative_exclude)
    fields.refuse("relative_exclude",
                  fmt::format(kOneSource, fmt::format("relative_exclude_joints: {}", *model.relative_exclude)));
}

}  // namespace

const char* name_of(Normalization kind) {
  for (const NormalizationName& one : kNormalizations)
    if (one.kind == kind) return one.option;
  return "?";
}

std::optional<Normalization> of_lerobot(const std::string& name) {
  for (const NormalizationName& one : kNormalizations)
    if (name == one.lerobot) return one.kind;
  return std::nullopt;
}

RobotOptions read_robot_options(family::JsonFields& fields, const nlohmann::json& options, const ModelWays& model) {
  RobotOptions out;
  read_cameras(fields, options, out);
  out.state_key = fields.text("state", out.state_key);
  out.action_key = fields.text("action", out.action_key);
  out.state_in_prompt = fields.flag("state_in_prompt", out.state_in_prompt);
  out.max_prompt_tokens = fields.positive("max_prompt_tokens", out.max_prompt_tokens);
  read_normalization(fields, model, out);
  out.normalization_floor = fields.number("normalization_floor", out.normalization_floor);
  if (!(out.normalization_floor >= 0 && out.normalization_floor <= 1000))
    fields.refuse("normalization_floor", "standard deviations from 0 to 1000");
  out.statistics = fields.text("statistics", "");
  read_relative(fields, options, model, out);
  const std::string resize = fields.text("resize", "lerobot");
  if (resize != "lerobot" && resize != "openpi") fields.refuse("resize", "\"lerobot\" or \"openpi\"");
  out.resize = resize == "openpi" ? Resize::kSmooth : Resize::kPlain;
  const std::string columns = fields.text("loss_columns", "all");
  if (columns != "all" && columns != "own") fields.refuse("loss_columns", "\"all\" or \"own\"");
  out.own_columns_alone = columns == "own";
  out.augment = fields.flag("augment", out.augment);
  out.views = model.views;
  out.action_names = model.action_names;
  return out;
}

}  // namespace lf::robot
