// `lfrun plugins ...`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/conformance.h"
#include "plugins/plugins.h"

namespace lf {

// A table, one line per plugin: kind, id, version, ABI, LibTorch, file; or the file and why it is refused.
std::string plugin_table(const std::vector<Candidate>& candidates);

struct Verdict {
  std::string text;
  bool all_good = true;
};

// Everything that reading says of each file.
Verdict inspect_plugins(const std::vector<std::string>& files, const PluginHost& host, const std::string& library_path);

struct VerifyRequest {
  std::vector<std::string> files;
  KitOptions kit;
  bool all = false, json = false;
};
// The conformance kit on each file, in child processes.
Verdict verify_plugins(const VerifyRequest& request, const PluginHost& host);

// Writes plugins.lock in each folder. Throws lf::Error where a plugin is refused or the file cannot be written.
std::string lock_plugins(const std::vector<std::filesystem::path>& folders, const PluginHost& host);

}  // namespace lf
