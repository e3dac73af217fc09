#include "launch/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "config/config.h"
#include "core/error.h"
#include "core/terminal.h"
#include "launch/command_line.h"
#include "launch/core_library.h"
#include "launch/final_status.h"
#include "launch/plugin_commands.h"
#include "launch/run_lock.h"
#include "launch/stop_signals.h"
#include "launch/threads.h"
#include "launch/worker_log.h"
#include "launch/workers.h"
#include "plugins/device_choice.h"
#include "plugins/model_on_device.h"
#include "plugins/plugins.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void remark(std::string_view text) {
  std::fprintf(stderr, "lfrun: %.*s\n", static_cast<int>(text.size()), text.data());
}

std::string library_path(const Environment& environment) {
  const auto found = environment.find("LD_LIBRARY_PATH");
  return found == environment.end() ? "" : found->second;
}

PluginHost host_of(const CommandLine& line, const Environment& environment) {
  return {.torch_build = LF_CORE_TORCH_BUILD,
          .lock = line.locked ? LockUse::kRequired : LockUse::kIfThere,
          .core = core_path(executable_path()),
          .library_path = library_path(environment)};
}

// What LF_DEVICE names, where it is set. One that is empty is a script's variable gone astray: it names no device, and
// is refused as such, since the job's own would be another than was meant.
std::optional<std::string> device_of(const Environment& environment) {
  const auto found = environment.find("LF_DEVICE");
  if (found == environment.end()) return std::nullopt;
  if (found->second.empty())
    fail(Exit::kConfig, "LF_DEVICE: expected the id of a device plugin, or auto, got nothing; name one, or unset it");
  return found->second;
}

std::vector<fs::path> plugin_dirs(const CommandLine& line) {
  if (line.plugin_dirs) return *line.plugin_dirs;
  const fs::path beside = executable_path().parent_path().parent_path() / "plugins";
  return fs::is_directory(beside) ? std::vector<fs::path>{beside} : std::vector<fs::path>{};
}

// What the core is asked, with the strings it points into.
class Request {
 public:
  Request(const std::string& command, const std::vector<fs::path>& plugin_dirs, const CommandLine& line,
          const Environment& environment)
      : command_(command),
        core_file_(core_path(executable_path()).string()),
        library_path_(library_path(environment)),
        locked_(line.locked) {
    for (const fs::path& dir : plugin_dirs) plugin_dirs_.push_back(dir.string());
    request.version = LF_CORE_VERSION;
    request.threads = 1;
    request.world_size = request.local_world_size = 1;
    request.stop_requested = &stop_requested;
  }

  std::string job_file, store, device_reason;
  std::vector<std::string> sets, set_origins, arguments;
  lf_core_request request{};  // numbers and flags; run() fills in the pointers and --locked

  int run(CoreRun core) {
    if (locked_) request.flags |= LF_CORE_PLUGINS_LOCKED;
    request.core_file = core_file_.c_str();
    request.library_path = library_path_.c_str();
    request.command = command_.c_str();
    request.job_file = job_file.empty() ? nullptr : job_file.c_str();
    request.store = store.c_str();
    request.device_reason = device_reason.c_str();
    const auto point = [](const std::vector<std::string>& texts, std::vector<const char*>& pointers, uint32_t& n) {
      pointers.clear();
      for (const std::string& text : texts) pointers.push_back(text.c_str());
      n = static_cast<uint32_t>(pointers.size());
      return pointers.data();
    };
    request.sets = point(sets, set_pointers_, request.n_sets);
    uint32_t n_origins = 0;  // as many as sets
    request.set_origins = point(set_origins, origin_pointers_, n_origins);
    request.plugin_dirs = point(plugin_dirs_, dir_pointers_, request.n_plugin_dirs);
    request.arguments = point(arguments, argument_pointers_, request.n_arguments);
    return core(&request);
  }

 private:
  std::string command_, core_file_, library_path_;
  bool locked_;
  std::vector<std::string> plugin_dirs_;
  std::vector<const char*> set_pointers_, origin_pointers_, dir_pointers_, argument_pointers_;
};

std::string toml_text(const std::string& text) { return nlohmann::json(text).dump(); }

// A command line with a job file, resolved: the core resolves it again from `sets`.
struct Job {
  ResolvedJob resolved;
  std::vector<std::string> sets, set_origins;
};

Job read_job(const CommandLine& line, const Environment& environment, bool starts_workers, Problems& problems) {
  Job job;
  JobSource source{.file = line.job_file};
  for (const std::string& set : line.sets) source.overrides.push_back({set});
  if (line.processes) source.overrides.push_back({fmt::format("launch.processes={}", *line.processes), "-n"});
  source.device = device_of(environment);
  job.resolved = resolve_job(source, problems);
  if (line.fresh && starts_workers &&
      problems.empty()) {  // one worker of many leaves the choice to the core, which all of them ask
    const fs::path output = fresh_output(job.resolved.config.job.output);
    source.overrides.push_back({"job.output=" + toml_text(output.string()), "--fresh"});
    job.resolved = resolve_job(source);
  }
  if (source.device) source.overrides.push_back({"device.name=" + toml_text(*source.device), "LF_DEVICE"});
  for (const Override& item : source.overrides) {
    job.sets.push_back(item.text);
    job.set_origins.push_back(item.origin);
  }
  return job;
}

// Calls check(kind, id) for the plugins that a job names, beside its device, which is chosen
// (plugins/device_choice.h); refusals are problems of the option.
template <typename Check>
void for_plugins_of(const ResolvedJob& job, Problems& problems, Check&& check) {
  const JobConfig& config = job.config;
  for (const auto& [option, kind, id] : {std::tuple("model.family", PluginKind::kModel, config.model.family),
                                         std::tuple("balance.policy", PluginKind::kBalancer, config.balance.policy)}) {
    if (job.broken.contains(option) || id.empty()) continue;
    try {
      check(kind, id);
    } catch (const Error& error) {
      problems.add(error.exit(), with_origin(job, option, error.what()));
    }
  }
}

void make_log_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Exit::kCannotCreate, "{}: cannot be created: {}; choose another job.output", folder.string(), error.message());
}

uint32_t flag_if(bool condition, uint32_t flag) { return condition ? flag : 0; }

// Rank 0 and lfrun itself may draw on the terminal.
uint32_t terminal_flag(int rank) {
  const bool draws = isatty(STDERR_FILENO) == 1 && obeys_control_sequences(std::getenv("TERM"));
  return flag_if(rank == 0 && draws, LF_CORE_TERMINAL);
}

void set_number(const char* name, int value) { setenv(name, std::to_string(value).c_str(), 1); }

// Before the core is opened: its OpenMP runtime reads it then. `told`: whether this process speaks for the host.
int set_threads(const JobConfig& config, int local_world_size, const Environment& environment, bool told) {
  const int cores = usable_cores();
  const int threads = threads_of_worker(config, local_world_size, environment, cores);
  if (const std::string warning = too_many_threads(threads, local_world_size, cores); told && !warning.empty())
    remark(warning);
  set_number("OMP_NUM_THREADS", threads);
  return threads;
}

int train_as_one_worker(const Job& job, const CommandLine& line, const WorkerPlace& place, Request& request,
                        const Environment& environment) {
  request.request.threads =
      set_threads(job.resolved.config, place.local_world_size, environment, place.local_rank == 0);
  const CoreRun core = open_core(executable_path());
  request.store = place.store;
  request.request.rank = place.rank;
  request.request.world_size = place.world_size;
  request.request.local_rank = place.local_rank;
  request.request.local_world_size = place.local_world_size;
  request.request.generation = place.generation;
  request.request.flags =
      flag_if(line.fresh, LF_CORE_FRESH) | flag_if(place.serves_store, LF_CORE_SERVE_STORE) | terminal_flag(place.rank);
  catch_stop_signals(Escalation::kByWorker);
  return request.run(core);
}

int train_from_here(const Job& job, Request& request, const PluginSet& plugins, const Environment& environment) {
  const JobConfig& config = job.resolved.config;
  if (const std::string hint = batch_shell_hint(environment); !hint.empty()) remark(hint);
  const int processes = config.launch.processes;
  request.request.threads = set_threads(config, processes, environment, true);
  const CoreRun core = open_core(executable_path());
  Problems problems;
  for_plugins_of(job.resolved, problems, [&](PluginKind kind, const std::string& id) {
    if (kind == PluginKind::kModel)
      require_model_on_device(plugins, id, config.device.name, config.device.op_fallback == "warn");
    else
      plugins.verify(kind, id);
  });
  problems.refuse_if_any();
  const std::string go_on =
      request.arguments.empty() ? "the same command" : go_on_command(request.arguments, config.job.output);
  WorkerPlan plan{.processes = processes,
                  .log_folder = config.job.output / "log",
                  .tell = remark,
                  .go_on = go_on,
                  .on_failure = [&config](const WorkerPlan::Failure& failure) {
                    write_final_status(config.job.output, failure.leader, failure.state, failure.not_the_leaders);
                  }};
  const RunLock lock(config.job.output);  // a second run must not touch the first one's logs
  make_log_folder(plan.log_folder);
  return run_workers(plan, [&](int rank, const std::string& store) {
    set_number("RANK", rank);
    set_number("WORLD_SIZE", processes);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", processes);
    request.store = store;
    request.request.rank = request.request.local_rank = rank;
    request.request.world_size = request.request.local_world_size = processes;
    request.request.flags = LF_CORE_PLUGINS_PROBED | LF_CORE_RUN_LOCKED | terminal_flag(rank);
    return request.run(core);
  });
}

// The core is told of "auto"'s choice as of any other setting.
void choose_device_of(Job& job, const PluginSet& plugins, int workers, Problems& problems, Request& request) {
  std::string& name = job.resolved.config.device.name;
  if (job.resolved.broken.contains("device.name") || name.empty()) return;
  try {
    const DeviceChoice choice =
        choose_device(plugins, name, workers, device_named_by(job.resolved.origins.at("device.name")));
    request.device_reason = choice.reason;
    if (name == choice.id) return;
    name = choice.id;
    request.sets.push_back("device.name=" + toml_text(name));
    request.set_origins.push_back("auto");
  } catch (const Error& error) {
    problems.add(error.exit(), with_origin(job.resolved, "device.name", error.what()));
  }
}

int run_job(const CommandLine& line, const Environment& environment) {
  const bool training = line.command == Command::kTrain;
  const auto place = training ? worker_place(environment) : std::nullopt;
  if (place && line.processes)
    fail(Exit::kUsage,
         "-n starts workers, but the environment says that this is worker {} of {}; leave one of them out", place->rank,
         place->world_size);
  Problems problems;
  Job job = read_job(line, environment, training && !place, problems);
  if (line.command == Command::kPrintConfig) {
    problems.refuse_if_any();
    print(print_config(job.resolved));
    return 0;
  }
  const std::vector<fs::path> dirs = plugin_dirs(line);
  Request request(training ? "train" : "check", dirs, line, environment);
  request.job_file = job.resolved.config.file.string();
  request.sets = job.sets;
  request.set_origins = job.set_origins;
  if (training && line.fresh) request.arguments = line.others_than_fresh;
  if (training) {
    if (job.resolved.whole) check_inputs(job.resolved, problems);
    std::optional<PluginSet> plugins;
    std::vector<fs::path> loaded_together;
    if (problems.attempt([&] { plugins.emplace(dirs, host_of(line, environment)); })) {
      const int workers = place ? place->local_world_size : job.resolved.config.launch.processes;
      choose_device_of(job, *plugins, workers, problems, request);
      for_plugins_of(job.resolved, problems, [&](PluginKind kind, const std::string& id) {
        loaded_together.push_back(plugins->find(kind, id).path);
      });
      if (problems.empty())
        loaded_together.push_back(plugins->find(PluginKind::kDevice, job.resolved.config.device.name).path);
      problems.attempt([&] { plugins->require_one_of_each_library(loaded_together); });
    }
    problems.refuse_if_any();
    if (place) return train_as_one_worker(job, line, *place, request, environment);
    return train_from_here(job, request, *plugins, environment);
  }
  if (!job.resolved.whole) problems.refuse_job_if_any();  // all else is the core's to tell, with what it finds besides
  const int processes = job.resolved.config.launch.processes;
  // What it looks at is small, and thousands of threads take LibTorch seconds to start.
  const int threads = std::min(set_threads(job.resolved.config, processes, environment, true), usable_cores());
  set_number("OMP_NUM_THREADS", threads);
  request.request.threads = threads;
  request.request.world_size = request.request.local_world_size = processes;
  request.request.flags = terminal_flag(0);
  return request.run(open_core(executable_path()));
}

// parity, export, balance: one process, all cores, no job.
int run_tool(const std::string& command, const CommandLine& line, const Environment& environment) {
  const std::vector<fs::path> dirs = plugin_dirs(line);
  Request request(command, dirs, line, environment);
  request.arguments = line.words;
  if (const auto device = command == "parity" ? device_of(environment) : std::nullopt) {
    const DeviceChoice choice =
        choose_device(PluginSet(dirs, host_of(line, environment)), *device, 1, device_named_by("LF_DEVICE"));
    request.arguments.insert(request.arguments.end(), {"--device", choice.id});
    remark(fmt::format("device {}: {}", choice.id, choice.reason));
  }
  request.request.threads = set_threads(JobConfig{}, 1, environment, false);
  request.request.flags = terminal_flag(0);
  return request.run(open_core(executable_path()));
}

}  // namespace

int run_lfrun(const std::vector<std::string>& arguments, const Environment& environment) {
  const CommandLine line = parse_command_line(arguments);
  if (line.command == Command::kTrain) end_at_stop_signals();
  switch (line.command) {
    case Command::kHelp: {
      const std::string own = line.words.empty() ? "" : usage_of(line.words[0]);
      print(!own.empty() ? own : usage() + "\nOptions of a job file:\n\n" + options_help());
      return 0;
    }
    case Command::kVersion:
      print(fmt::format("lfrun {}, plugin ABI {}.{}, LibTorch {}\n", LF_VERSION, LF_ABI_MAJOR, LF_ABI_MINOR,
                        LF_CORE_TORCH_BUILD));
      return 0;
    case Command::kOptions:
      print(line.markdown ? options_page() : options_help());
      return 0;
    case Command::kPluginsList:
      print(plugin_table(list_plugins(plugin_dirs(line), host_of(line, environment))));
      return 0;
    case Command::kPluginsInspect: {
      const Verdict verdict = inspect_plugins(line.words, host_of(line, environment), library_path(environment));
      print(verdict.text);
      return verdict.all_good ? 0 : static_cast<int>(Exit::kConfig);
    }
    case Command::kPluginsVerify: {
      const VerifyRequest request{.files = line.words,
                                  .kit = {.case_folder = line.case_folder, .only = line.only},
                                  .all = line.all,
                                  .json = line.json};
      const Verdict verdict = verify_plugins(request, host_of(line, environment));
      print(verdict.text);
      return verdict.all_good ? 0 : static_cast<int>(Exit::kConfig);
    }
    case Command::kPluginsLock:
      print(lock_plugins(plugin_dirs(line), host_of(line, environment)));
      return 0;
    case Command::kParity:
      return run_tool("parity", line, environment);
    case Command::kExport:
      return run_tool("export", line, environment);
    case Command::kBalance:
      return run_tool("balance", line, environment);
    case Command::kTrain:
    case Command::kCheck:
    case Command::kPrintConfig:
      return run_job(line, environment);
  }
  return static_cast<int>(Exit::kBug);
}

}  // namespace lf
