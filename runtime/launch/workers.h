// The workers of one host: forked from this process, watched, told to stop, and accounted for.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace lf {

struct WorkerPlan {
  int processes = 1;
  std::filesystem::path log_folder;  // exists
  // Where lines for the person in front go.
  std::function<void(std::string_view)> tell;
  std::string go_on = "the same command";  // what goes on with the run after it was stopped
  // What became of the job where it did not end by itself. Empty: nobody asks.
  struct Failure {
    pid_t leader = -1;             // the process that was rank 0
    bool not_the_leaders = false;  // another rank was the first to die
    std::string state;             // "failed: rank 1 of 2 was killed by SIGKILL"
  };
  std::function<void(const Failure&)> on_failure;
  // After a worker died: how long the others may take to end by themselves, so that the one that died first is told
  // from those that it took along. Longer than an error needs on its way out of collectives whose peers are gone: a
  // group gives each 2 s (comm/gloo_group.cpp), and a rank that is killed before takes the cause with it.
  std::chrono::milliseconds settle{5000};
};

// Runs `worker(rank, store)` in plan.processes forked children, rank 0 on this process's terminal and the others'
// output in the log folder, and serves their store ("unix:PATH") until all have ended. Its value is the child's exit
// code.
//
// SIGTERM, SIGINT, SIGUSR1 and SIGHUP are forwarded once as SIGTERM (see stop_signals.h); a second SIGTERM or SIGINT
// kills the workers. A worker that dies takes the others down, and its rank, exit code or signal and last lines are
// told; then those of the others that ended with an error of their own before they were killed.
//
// Returns 0: all did; 75: all did or saved; else the code of the worker that died first, 128+n by signal.
// The calling process must have one thread, and never have run an operator of LibTorch. Throws lf::Error where no
// worker can be started.
int run_workers(const WorkerPlan& plan, const std::function<int(int rank, const std::string& store)>& worker);

}  // namespace lf
