// Rules between options, and the defaults that are worked out from other options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace lf {

struct JobProblem {
  std::string_view option;  // whose place the message gets
  std::string text;
};

// Says nothing about the job's `broken` options.
std::vector<JobProblem> check_job(const ResolvedJob& job);

void fill_derived_defaults(ResolvedJob& job, const std::filesystem::path& working_directory);

}  // namespace lf
