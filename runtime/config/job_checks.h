// Rules between options, and the defaults that are worked out from other options.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lf {

struct JobProblem {
  std::string_view option;  // whose place the message gets
  std::string text;
};

// `broken`: options with a mistake of their own, about which nothing more is said.
std::vector<JobProblem> check_job(const ResolvedJob& job, const std::set<std::string, std::less<>>& broken);

void fill_derived_defaults(ResolvedJob& job, const std::filesystem::path& working_directory);

}  // namespace lf
