// `lfrun plugins ...`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugins/plugins.h"

namespace lf {

// A table, one line per plugin: kind, id, version, ABI, LibTorch, file; or the file and why it is refused.
std::string plugin_table(const std::vector<Candidate>& candidates);

struct Verdict {
  std::string text;  // one line per file
  bool all_good = true;
};
Verdict verify_plugins(const std::vector<std::string>& files, const PluginHost& host);

}  // namespace lf
