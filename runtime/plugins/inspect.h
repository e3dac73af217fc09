// `lfrun plugins inspect`: everything that can be said of a plugin's file by reading it. No code of it runs.
#pragma once

#include <filesystem>
#include <string>

#include "plugins/plugins.h"

namespace lf {

struct Inspection {
  std::string text;         // one fact a line
  bool acceptable = false;  // would be tried
};

// `library_path`: the value of LD_LIBRARY_PATH, which the dynamic linker heeds for a plugin's libraries.
Inspection inspect_plugin(const std::filesystem::path& file, const PluginHost& host, const std::string& library_path);

}  // namespace lf
