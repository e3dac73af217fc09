// Training: the loop, and the only place that names all stages.
#pragma once

#include <functional>
#include <string>

#include "config/config.h"

namespace lf {

struct TrainRequest {
  ResolvedJob job;
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;
  int threads = 1;
  std::string store;         // "unix:PATH", "tcp:HOST:PORT", or "" in a world of one
  bool serve_store = false;  // this rank serves the TCP store
  uint64_t generation = 0;
  bool fresh = false;              // rank 0 chooses a new run directory
  std::vector<std::string> go_on;  // words after `lfrun`, without --fresh; empty: the run was not started with it
  bool terminal = false;           // stderr is a terminal that this rank may draw on
  bool plugins_probed = false;
  bool run_locked = false;               // whoever started this rank holds the lock of its run directory
  std::string device_reason;             // why the job's device was taken, for the run record
  std::function<bool()> stop_requested;  // finish the step, save, return kSavedRunAgain
};

// Returns kDone, or kSavedRunAgain when it was asked to stop and has saved. Throws lf::Error; peers are told why first.
int run_training(const TrainRequest& request);

}  // namespace lf
