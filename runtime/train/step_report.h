// What a step did, as rank 0 tells it to people and files, and what of it a run's profile keeps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "load/load.h"
#include "metrics/metrics.h"
#include "optimizer/adamw.h"
#include "reduction/reduction.h"
#include "train/gradient_copies.h"
#include "train/profile.h"
#include "train/session.h"
#include "train/step_sums.h"
#include "train/stopwatch.h"
#include "train/train.h"

namespace lf {

// Of a rank's training thread, in a step.
struct TimeSpent {
  double model_seconds = 0, model_cpu_seconds = 0;  // forward and backward
  double peer_wait_seconds = 0;                     // for slower ranks, exchanging sums of losses
  double optimizer_seconds = 0, optimizer_cpu_seconds = 0;
};

struct TrainedStep {
  int64_t number = 0;  // 1 is the first
  StepWork work;
  StepSums sums;
  ReducedStep reduced;
  StepStats stats;
  TimeSpent spent;
};

// What costs are learned from, [ranks, micro-batches] or [ranks]: on a card, work of a micro-batch is done some time
// after it was asked for, and only the step's end is known.
const std::vector<double>& observed_seconds(const TrainedStep& step, const Device& device);

class StepReporter {
 public:
  // All outlive it. `folder`: of the run; its files go on after `finished_steps`.
  StepReporter(const TrainRequest& request, const Session& session, const ParameterStore& store,
               const Freezing& freezing, const std::filesystem::path& folder, int64_t finished_steps);

  void begin();  // elapsed time counts from here
  // `whole`: since the step's work was asked for. `copied`: of gradients from a device, or zeros.
  void report(const TrainedStep& step, int64_t total_steps, const Stopwatch& whole, const CopiedBytes& copied);
  void finish(const std::string& state) { metrics_.finish(state); }

  // exposed_seconds, compute_seconds and other_seconds, of the steps reported.
  ProfiledRun means() const;

 private:
  double step_flops(const StepWork& work) const;

  const TrainRequest& request_;
  const Session& session_;
  const ParameterStore& store_;
  const Freezing& freezing_;
  Metrics metrics_;
  // Seconds of a step that reduction was waited for, of compute over ranks, and of what is neither.
  RecentMean exposed_, compute_, other_;
  double started_ = 0;
};

}  // namespace lf
