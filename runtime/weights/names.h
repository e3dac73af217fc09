// Lists of tensor names as people can read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lf {

// One line for each group of names that differ only in their numbers: "model.layers.{0..27}.mlp.up_proj.weight (28)".
// All names are covered; a range that is not dense is shown as one, with the count telling.
std::vector<std::string> summarize_names(const std::vector<std::string>& names);

// True when any of the glob patterns (fnmatch: * ? [...]) matches.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

// The candidate with the fewest single-character edits from `name`, if they are few enough to be a likely slip; else
// empty.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lf
