#include "pi05/data/robot_options.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace lf::robot {
namespace {

std::vector<std::string> texts(family::JsonFields& fields, const nlohmann::json& options, const char* name,
                               std::vector<std::string> fallback) {
  fields.ignore({name});
  if (!fields.has(name)) return fallback;
  const nlohmann::json& list = options.at(name);
  if (!list.is_array() ||
      !std::all_of(list.begin(), list.end(), [](const nlohmann::json& one) { return one.is_string(); }))
    fields.refuse(name, "a list of names");
  return list.get<std::vector<std::string>>();
}

}  // namespace

RobotOptions read_robot_options(family::JsonFields& fields, const nlohmann::json& options) {
  RobotOptions out;
  out.cameras = texts(fields, options, "cameras", {});
  out.optional_cameras = texts(fields, options, "optional_cameras", {});
  for (const std::string& name : out.optional_cameras)
    if (std::find(out.cameras.begin(), out.cameras.end(), name) == out.cameras.end())
      fields.refuse("optional_cameras", "names that `cameras` lists too");
  for (const std::string& name : out.cameras)
    if (!name.empty() && std::count(out.cameras.begin(), out.cameras.end(), name) > 1)
      fields.refuse("cameras", "each feature once");
  out.state_key = fields.text("state", out.state_key);
  out.action_key = fields.text("action", out.action_key);
  out.state_in_prompt = fields.flag("state_in_prompt", out.state_in_prompt);
  out.max_prompt_tokens = fields.positive("max_prompt_tokens", out.max_prompt_tokens);
  const std::string normalization = fields.text("normalization", "quantiles");
  if (normalization == "mean_std")
    out.normalization = Normalization::kMeanDeviation;
  else if (normalization == "none")
    out.normalization = Normalization::kNone;
  else if (normalization != "quantiles")
    fields.refuse("normalization", "\"quantiles\", \"mean_std\" or \"none\"");
  out.normalization_floor = fields.number("normalization_floor", out.normalization_floor);
  if (!(out.normalization_floor >= 0 && out.normalization_floor <= 1000))
    fields.refuse("normalization_floor", "standard deviations from 0 to 1000");
  out.statistics = fields.text("statistics", "");
  out.relative_actions = fields.flag("relative_actions", false);
  if (!out.relative_actions && fields.has("relative_exclude"))
    fields.refuse("relative_exclude", "relative_actions = true beside it");
  out.relative_exclude = texts(fields, options, "relative_exclude", out.relative_exclude);
  return out;
}

}  // namespace lf::robot
