// The one exported symbol of liblfcore.so: from the launcher's request to the command.
#include "launch/core_entry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include <ATen/Parallel.h>

#include "balance_command/balance_command.h"
#include "check/check.h"
#include "check/job_samples.h"
#include "config/config.h"
#include "core/crash.h"
#include "core/error.h"
#include "core/host.h"
#include "core/log.h"
#include "core/path_error.h"
#include "parity/parity.h"
#include "train/export_command.h"
#include "train/session.h"
#include "train/train.h"

namespace lf {
namespace {

std::vector<std::string> strings(const char* const* items, uint32_t n) { return {items, items + n}; }

PluginPlaces plugin_places(const lf_core_request& request) {
  PluginPlaces places;
  for (const std::string& dir : strings(request.plugin_dirs, request.n_plugin_dirs)) places.dirs.emplace_back(dir);
  places.locked = (request.flags & LF_CORE_PLUGINS_LOCKED) != 0;
  places.core = request.core_file;
  places.library_path = request.library_path;
  return places;
}

ResolvedJob resolve(const lf_core_request& request, Problems& problems) {
  JobSource source;
  source.file = request.job_file;
  for (uint32_t i = 0; i < request.n_sets; ++i) source.overrides.push_back({request.sets[i], request.set_origins[i]});
  ResolvedJob job = resolve_job(source, problems);
  job.config.plugins = plugin_places(request);
  if (job.whole) check_inputs(job, problems);
  return job;
}

TrainRequest train_request(const lf_core_request& request) {
  TrainRequest train;
  Problems problems;
  train.job = resolve(request, problems);
  problems.refuse_if_any();
  train.rank = request.rank;
  train.world_size = request.world_size;
  train.local_rank = request.local_rank;
  train.local_world_size = request.local_world_size;
  train.threads = request.threads;
  train.store = request.store;
  train.serve_store = (request.flags & LF_CORE_SERVE_STORE) != 0;
  train.generation = request.generation;
  train.fresh = (request.flags & LF_CORE_FRESH) != 0;
  train.go_on = strings(request.arguments, request.n_arguments);
  train.terminal = (request.flags & LF_CORE_TERMINAL) != 0;
  train.plugins_probed = (request.flags & LF_CORE_PLUGINS_PROBED) != 0;
  train.run_locked = (request.flags & LF_CORE_RUN_LOCKED) != 0;
  train.device_reason = request.device_reason;
  train.stop_requested = [stop = request.stop_requested] { return stop != nullptr && stop() != 0; };
  return train;
}

int train(const lf_core_request& request) {
  const TrainRequest train = train_request(request);
  try {
    return run_training(train);
  } catch (const Error& error) {
    throw Error(error.exit(), with_origins(train.job, error.what()));
  }
}

int check(const lf_core_request& request) {
  log::open({}, true, log::Level::kWarning);  // what is said for information stands in the table
  setvbuf(stdout, nullptr, _IOLBF, 0);        // a plugin that crashes takes no finding with it
  Problems problems;
  const ResolvedJob job = resolve(request, problems);
  if (!job.whole) problems.refuse_job_if_any();
  return run_check(job, std::max(request.world_size, job.config.launch.processes), request.device_reason, problems);
}

int balance(const std::vector<std::string>& arguments, const PluginPlaces& places) {
  Host host;
  PluginSet plugins(places.dirs, plugin_host(places));
  const auto read_job = [&](const std::filesystem::path& job, const std::vector<std::string>& settings) {
    return read_job_samples(job, settings, places);
  };
  return run_balance(arguments, policies_of(plugins, host.table()), read_job, std::cout);
}

int run(const lf_core_request& request) {
  if (request.version != LF_CORE_VERSION)
    fail(Exit::kConfig, "liblfcore.so speaks version {} with the launcher, which speaks {}; they must be of one build",
         LF_CORE_VERSION, request.version);
  tell_crashes();
  at::set_num_threads(request.threads);  // before the first operator
  // oneDNN keeps compiled code for every shape that it meets, 1,024 by default; packed batches bring new ones each
  // step, and memory grew by 20 MB a step (measured on the quick start in bf16).
  setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256", 0);
  const std::string command = request.command;
  const std::vector<std::string> arguments = strings(request.arguments, request.n_arguments);
  const PluginPlaces places = plugin_places(request);
  if (command == "train") return train(request);
  if (command == "check") return check(request);
  if (command == "parity") return run_parity(arguments, places);
  if (command == "export") return run_export(arguments, places);
  if (command == "balance") return balance(arguments, places);
  fail(Exit::kUsage, "liblfcore.so does not know the command {}", command);
}

// A line each, but for lines that are set in, which belong to the one above.
void tell_each_mistake(const std::string& all) {
  for (size_t begin = 0; begin < all.size();) {
    size_t end = all.find('\n', begin);
    while (end != all.npos && end + 1 < all.size() && all[end + 1] == ' ') end = all.find('\n', end + 1);
    end = std::min(end, all.size());
    log::error("{}", std::string_view(all).substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace
}  // namespace lf

extern "C" __attribute__((visibility("default"))) int lf_core_run(const lf_core_request* request) {
  try {
    const int code = lf::run(*request);
    lf::log::flush();
    return code;
  } catch (const lf::Error& error) {
    lf::tell_each_mistake(error.what());
    lf::log::flush();
    return static_cast<int>(error.exit());
  } catch (const std::filesystem::filesystem_error& error) {
    const lf::Error told = lf::path_error(error);
    lf::log::error("{}", told.what());
    lf::log::flush();
    return static_cast<int>(told.exit());
  } catch (const std::system_error& error) {  // such as fmt::print's, where nothing more can be written
    lf::log::error("{}", error.what());
    lf::log::flush();
    return static_cast<int>(lf::Exit::kIo);
  } catch (const std::exception& error) {
    std::string text = error.what();  // LibTorch's carry a backtrace after the first line
    lf::log::error("unexpected: {}; this is a bug of lfrun", text.substr(0, text.find("\nException raised from")));
    lf::log::flush();
    return static_cast<int>(lf::Exit::kBug);
  }
}
