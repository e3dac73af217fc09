// The settings of a policy, as the job file's [balance.options] gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lf::planning {

// One setting: its name, and where its value goes.
struct Setting {
  std::string_view name;
  double* number = nullptr;  // a number from least to most
  double least = 0, most = 0;
  std::string* word = nullptr;  // or one of these words
  std::vector<std::string_view> words = {};
};

// Reads a JSON object into the settings; absent ones keep their value, an empty text is an empty object. Throws
// sdk::Failure(LF_E_INVALID) of a line for each setting that is wrong: the key, what was expected and what came.
void read_settings(std::string_view json, const std::vector<Setting>& settings);

}  // namespace lf::planning
