// The words after `lfrun`, understood.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lf {

enum class Command {
  kTrain,
  kCheck,
  kPrintConfig,
  kPluginsList,
  kPluginsInspect,
  kPluginsVerify,
  kPluginsLock,
  kParity,
  kExport,
  kBalance,
  kOptions,
  kHelp,
  kVersion
};

struct CommandLine {
  Command command = Command::kHelp;
  std::string job_file;                                           // kTrain, kCheck, kPrintConfig: as given
  std::vector<std::string> sets;                                  // "table.key=value"
  std::optional<std::vector<std::filesystem::path>> plugin_dirs;  // absolute; none given: the built-in place
  std::optional<int> processes;                                   // -n
  bool fresh = false, markdown = false;
  bool locked = false;                         // --locked: every plugin must be in its folder's plugins.lock
  std::filesystem::path case_folder;           // kPluginsVerify: --case
  std::string only;                            // kPluginsVerify: --only
  bool all = false, json = false;              // kPluginsVerify
  std::vector<std::string> words;              // of the other commands, for them to read; kHelp: what stood beside it
  std::vector<std::string> others_than_fresh;  // all that was given but --fresh
};

// `arguments`: without the program's name. Throws lf::Error(kUsage) in one line.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

std::string usage();  // for --help, without the job's options

// For COMMAND --help: of check, plugins, options. Empty of what is none of them; parity, export and balance have their
// own, with their options.
std::string usage_of(const std::string& command);

}  // namespace lf
