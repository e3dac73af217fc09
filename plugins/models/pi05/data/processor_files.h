// The files by which lerobot prepares what a policy gets, and turns back what it gives.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "family/saved_file.h"
#include "pi05/data/normalizer.h"
#include "pi05/data/robot_options.h"

namespace lf::robot {

// How a policy was trained to see states and actions.
struct UsedStatistics {
  struct Feature {
    Normalization kind = Normalization::kNone;
    Statistics statistics;  // Normalizer::statistics
  };
  std::optional<Feature> state;  // nothing: the policy does not see it
  Feature action;
  bool relative_actions = false;
  std::vector<std::string> relative_exclude, action_names;
};

// To be saved beside the policy:
//   stats.json    the statistics as a data set's meta/stats.json has them, for `dataset_stats` of lerobot's
//                 make_pre_post_processors and for model.options.statistics
//   policy_preprocessor.json, policy_postprocessor.json and the files of their steps' state, where `source`, the folder
//                 that the policy came from, has them: with these statistics, ways of normalising and relative
//                 actions instead of the source's; all else in them stays
// Formats: lerobot 0.6.1, processor/{pipeline,normalize_processor,relative_action_processor}.py. Throws
// sdk::Failure(LF_E_INVALID) with the path of a file in `source` that is not as lerobot writes it. Reads files, else
// pure.
std::vector<family::SavedFile> processor_files(const UsedStatistics& used, const std::filesystem::path& source);

}  // namespace lf::robot
