// A core for tests of the launcher: writes what it was asked into a file and does what FAKE_CORE says for its rank.
//
//   FAKE_CORE="1:exit 65"   rank 1 returns 65; what is not named returns 0. Several with ";" between.
//   FAKE_OUT                the folder of rank<N>.txt, complete when it appears
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/config.h"
#include "launch/core_entry.h"
#include "launch/store_client.h"

namespace {

namespace fs = std::filesystem;

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path report_file(int rank) { return fs::path(env("FAKE_OUT")) / ("rank" + std::to_string(rank) + ".txt"); }

void report(const lf_core_request& request) {
  if (env("FAKE_OUT").empty()) return;
  std::ostringstream text;
  text << "version " << request.version << "\ncommand " << request.command << "\njob_file "
       << (request.job_file == nullptr ? "-" : request.job_file) << "\n";
  for (uint32_t i = 0; i < request.n_sets; ++i) text << "set " << request.sets[i] << "\n";
  for (uint32_t i = 0; i < request.n_plugin_dirs; ++i) text << "plugin_dir " << request.plugin_dirs[i] << "\n";
  for (uint32_t i = 0; i < request.n_arguments; ++i) text << "argument " << request.arguments[i] << "\n";
  text << "locked " << ((request.flags & LF_CORE_PLUGINS_LOCKED) != 0 ? "yes" : "no") << "\ncore_file "
       << request.core_file << "\nlibrary_path " << request.library_path << "\n";
  text << "flags " << request.flags << "\nthreads " << request.threads << "\nomp " << env("OMP_NUM_THREADS")
       << "\nrank " << request.rank << "\nworld_size " << request.world_size << "\nlocal_rank " << request.local_rank
       << "\nlocal_world_size " << request.local_world_size << "\nstore " << request.store << "\ngeneration "
       << request.generation << "\nenv " << env("RANK") << " " << env("WORLD_SIZE") << " " << env("LOCAL_RANK") << " "
       << env("LOCAL_WORLD_SIZE") << "\npid " << getpid() << "\n";
  if (request.job_file != nullptr) {
    const lf::JobConfig job = lf::load_job(request.job_file, {request.sets, request.sets + request.n_sets});
    text << "output " << job.job.output.string() << "\ndevice " << job.device.name << "\n";
  }
  const fs::path file = report_file(request.rank), partial = file.string() + ".partial";
  std::ofstream(partial) << text.str();
  fs::rename(partial, file);
}

// Every rank adds its number and waits for all.
int meet(const lf_core_request& request) {
  lf::StoreClient store(std::string(request.store).substr(5));
  const std::string mine = std::to_string(request.rank);
  store.add("sum", request.rank);
  store.set("rank/" + mine, mine);
  std::vector<std::string> keys;
  for (int rank = 0; rank < request.world_size; ++rank) keys.push_back("rank/" + std::to_string(rank));
  if (!store.wait(keys, std::chrono::seconds(20))) return 70;
  std::ofstream(report_file(request.rank), std::ios::app) << "sum " << store.get("sum").value_or("none") << "\n";
  return 0;
}

std::string action_of(int rank) {
  std::istringstream all(env("FAKE_CORE"));
  for (std::string item; std::getline(all, item, ';');)
    if (const size_t colon = item.find(':');
        item.substr(0, colon) == std::to_string(rank) || item.substr(0, colon) == "*")
      return item.substr(colon + 1);
  return "exit 0";
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int lf_core_run(const lf_core_request* request) {
  report(*request);
  std::istringstream action(action_of(request->rank));
  std::string word;
  int number = 0;
  action >> word >> number;
  if (word == "say") {  // `number` lines, then an error
    for (int i = 1; i <= number; ++i) std::fprintf(stderr, "line %d of rank %d\n", i, request->rank);
    return 65;
  }
  if (word == "chorus") {  // one line, alike on every rank but for the time of it
    std::fprintf(stderr, "2026-01-0%dT08:00 what ails us all\n", request->rank + 1);
    return 78;
  }
  if (word == "signal") kill(getpid(), number);
  if (word == "outgrow") {  // a file larger than this process may write: the error is what it returns
    const rlimit nothing{0, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &nothing);
    const int file = open((env("FAKE_OUT") + "/large").c_str(), O_WRONLY | O_CREAT, 0600);
    return write(file, "x", 1) < 0 ? errno : 0;
  }
  if (word == "meet") return meet(*request);
  if (word == "save_when_asked") {
    while (request->stop_requested() == 0) usleep(1000);
    return 75;
  }
  if (word == "deaf") {
    for (;;) pause();
  }
  if (word == "after") {  // rank `number` has reported
    while (!fs::exists(report_file(number))) usleep(1000);
    return 65;
  }
  return number;
}
