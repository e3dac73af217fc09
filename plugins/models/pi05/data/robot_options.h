// What a job says about robot data, in [model.options].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "family/json_fields.h"

namespace lf::robot {

enum class Normalization { kQuantiles, kMeanDeviation, kNone };

struct RobotOptions {
  // "cameras": features of the data set, by view of the model; "" is an absent view. Empty: all of the data set's, in
  // the order of its info.json.
  std::vector<std::string> cameras;
  // "optional_cameras": those of `cameras` that a directory may lack; the view is then absent.
  std::vector<std::string> optional_cameras;
  std::string state_key = "observation.state";              // "state"
  std::string action_key = "action";                        // "action"
  bool state_in_prompt = true;                              // "state_in_prompt"
  int64_t max_prompt_tokens = 200;                          // "max_prompt_tokens"
  Normalization normalization = Normalization::kQuantiles;  // "normalization": quantiles | mean_std | none
  double normalization_floor = 0.5;                         // "normalization_floor", in standard deviations
  std::string statistics;                                   // "statistics": a stats.json instead of the directory's own
  bool relative_actions = false;                            // "relative_actions"
  std::vector<std::string> relative_exclude = {"gripper"};  // "relative_exclude"
};

// `fields` reads `options`, the object [model.options]. Takes these options and leaves the others to the caller, who
// names what nobody read. Throws sdk::Failure(LF_E_INVALID), naming the option.
RobotOptions read_robot_options(family::JsonFields& fields, const nlohmann::json& options);

// For messages about options that nobody knows.
inline constexpr const char* kRobotOptionNames =
    "cameras, optional_cameras, state, action, state_in_prompt, max_prompt_tokens, normalization, normalization_floor, "
    "statistics, relative_actions, relative_exclude";

}  // namespace lf::robot
