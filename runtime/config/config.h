// The job file: read, completed with --set, the environment and the defaults, checked, and printed back.
//
//   JobConfig config = load_job("job.toml", {"optimizer.learning_rate=2e-5"});
//
// Paths. Relative model.* and data.* paths of the job file start at the job file's folder; those given by --set, and
// job.output in either place, start at the current directory. Every path of a JobConfig is absolute.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/job.h"
#include "core/problems.h"

namespace lf {

// One setting from beside the job file, as "table.key=value" with the value in TOML syntax. Where an option takes text
// or paths, a value that begins with no quote, [ or { is that text, so that --set model.path=../qwen and --set
// job.name=2024 need no second quotes.
struct Override {
  std::string text;
  std::string origin = "--set";  // what messages and --print-config call it
};

struct JobSource {
  std::filesystem::path file;
  std::vector<Override> overrides = {};          // in order: the last one of a key wins
  std::optional<std::string> device = {};        // LF_DEVICE of the environment, where it is set
  std::filesystem::path working_directory = {};  // empty: the process's
};

struct ResolvedJob {
  JobConfig config;
  // Where each value came from, by dotted name: "job.toml:14:3", "--set", "LF_DEVICE", "default". One entry per option.
  std::map<std::string, std::string, std::less<>> origins;
  // The same of what stands inside a free table or a list of tables: "model.options.vision.depth",
  // "optimizer.groups[1].parameters".
  std::map<std::string, std::string, std::less<>> inner_origins;
  // Options with a mistake of their own: they hold their defaults, and nothing more is to be said about them. Of lists
  // of tables also which ones, "optimizer.groups[1]": these are empty, the others as they were given.
  std::set<std::string, std::less<>> broken;
  bool whole = true;  // false: the file is no TOML, and nothing of it is here
};

// Reads and checks all of it. Throws lf::Error with one line for every mistake, "job.toml:14:3: data.max_tokenz is
// unknown; did you mean data.max_tokens?": kConfig, or kInputMissing where the file itself cannot be read.
ResolvedJob resolve_job(const JobSource& source);

// The same for who goes on looking for further mistakes: those of the job are left in `problems`, and what they concern
// in `broken`. Throws where the file cannot be read.
ResolvedJob resolve_job(const JobSource& source, Problems& problems);

// The same for who needs only the values; LF_DEVICE is not read (the launcher hands it on as an override).
JobConfig load_job(const std::filesystem::path& file, const std::vector<std::string>& sets = {});

// Adds a line for each model, tokenizer, data or media path that is not there or cannot be read (kInputMissing,
// kPermission), and the option to `broken`.
void check_inputs(ResolvedJob& job, Problems& problems);
// Throws what check_inputs finds.
void require_inputs(const ResolvedJob& job);

// A message that begins with an option's name ("model.freeze: ...", "data.max_tokens: ..."), with the place that gave
// the option its value before it: "job.toml:14:3: model.freeze: ...". Every line of it; others stay as they are.
std::string with_origins(const ResolvedJob& job, const std::string& message);
// The same for a message about an option that it does not begin with.
std::string with_origin(const ResolvedJob& job, std::string_view option, const std::string& message);

// The job as a TOML file with every option, its value and its origin; reading it again gives the same job.
std::string print_config(const ResolvedJob& job);

// JSON of one option ("data.max_tokens", "model.options.window"), of a table ("data") or, by "", of everything.
// No value where there is no such name.
std::optional<std::string> option_json(const JobConfig& config, std::string_view dotted_name);

// Of every option, dotted, in the order of the reference page.
std::vector<std::string> option_names();

// The options, for a terminal and as the reference page docs/options.md.
std::string options_help();
std::string options_page();

// Where `--fresh` starts over: `output` itself if it does not exist, else the first free of output-2, output-3, ...
std::filesystem::path fresh_output(const std::filesystem::path& output);
// The command, for a shell, that goes on with the run that --fresh began in `output`. `words`: those after `lfrun`,
// without --fresh; what they say of job.output is left out.
std::string go_on_command(const std::vector<std::string>& words, const std::filesystem::path& output);

}  // namespace lf
