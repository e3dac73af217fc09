// What a job says about robot data, in [model.options], and what the model's own config says of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/json_fields.h"

namespace lf::robot {

// lerobot's names in capitals, those of the job's option below.
enum class Normalization {
  kQuantiles,       // QUANTILES, "quantiles": q01 and q99 to -1 and 1
  kInnerQuantiles,  // QUANTILE10, "quantiles_10": q10 and q90
  kRange,           // MIN_MAX, "min_max"
  kMeanDeviation,   // MEAN_STD, "mean_std"
  kNone,            // IDENTITY, "none"
};
// As the job's option has it.
const char* name_of(Normalization kind);
// Nothing where lerobot has no such name.
std::optional<Normalization> of_lerobot(const std::string& name);

// How pictures become square: as lerobot does it, each pixel from its nearest neighbours, or as openpi, smoothed.
enum class Resize { kPlain, kSmooth };

struct RobotOptions {
  // "cameras": features of the data set, by view of the model; "" is an absent view. Empty: those that the model's
  // config names, in its order; where it names none, all of the data set's, in the order of its info.json.
  std::vector<std::string> cameras;
  // "optional_cameras": those of `cameras` that a directory may lack; the view is then absent.
  std::vector<std::string> optional_cameras;
  std::string state_key = "observation.state";  // "state"
  std::string action_key = "action";            // "action"
  bool state_in_prompt = true;                  // "state_in_prompt"
  int64_t max_prompt_tokens = 200;              // "max_prompt_tokens"
  // "normalization", of both.
  Normalization state_normalization = Normalization::kQuantiles, action_normalization = Normalization::kQuantiles;
  double normalization_floor = 0.5;                         // "normalization_floor", in standard deviations
  std::string statistics;                                   // "statistics": a stats.json instead of the directory's own
  bool relative_actions = false;                            // "relative_actions"
  std::vector<std::string> relative_exclude = {"gripper"};  // "relative_exclude"
  Resize resize = Resize::kPlain;                           // "resize": lerobot | openpi
  // "loss_columns": "all", as openpi trains, columns that pad an action to the model's width too; "own": as lerobot,
  // the data set's alone (lerobot issue 2891).
  bool own_columns_alone = false;
  bool augment = false;  // "augment": change pictures by chance (augmentation.h)

  // Of the model's config alone: what it calls its cameras and the numbers of an action. Empty: it does not say.
  std::vector<std::string> views, action_names;
};

// What the model's config says; nothing where it does not.
struct ModelWays {
  std::optional<Normalization> state_normalization, action_normalization;
  std::optional<bool> relative_actions;
  std::optional<std::vector<std::string>> relative_exclude;
  std::vector<std::string> views, action_names;
};

// `fields` reads `options`, the object [model.options]. Takes these options and leaves the others to the caller, who
// names what nobody read. What the model's config says need not be repeated and cannot be contradicted: who opens what
// was trained follows the config. Mistakes are those of `fields`.
RobotOptions read_robot_options(family::JsonFields& fields, const nlohmann::json& options, const ModelWays& model);

// For messages about options that nobody knows.
inline constexpr const char* kRobotOptionNames =
    "cameras, optional_cameras, state, action, state_in_prompt, max_prompt_tokens, normalization, normalization_floor, "
    "statistics, relative_actions, relative_exclude, loss_columns, resize, augment";

}  // namespace lf::robot
