// The settings of a policy, as the job file's [balance.options] gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lf::planning {

// One setting: its name, and where its value goes. Exactly one of the targets is set.
struct Setting {
  std::string_view name;
  double* number = nullptr;
  double least = 0, most = 0;  // of number, both included
  std::string* word = nullptr;
  std::vector<std::string_view> words;  // that word may be
};

// Reads a JSON object into the settings; absent ones keep their value, an empty text is an empty object. Throws
// sdk::Failure(LF_E_INVALID) naming the key, what was expected and what came.
void read_settings(std::string_view json, const std::vector<Setting>& settings);

}  // namespace lf::planning
