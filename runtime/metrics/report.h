// What a step tells the world.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lf {

// How the step was dealt to ranks. Imbalance: slowest rank / mean - 1 of compute seconds.
struct BalanceReport {
  bool planned = false;             // else samples were trained where they arrived
  double arrival_imbalance = 0;     // expected, were nothing moved
  double predicted_imbalance = 0;   // expected, as dealt
  double measured_imbalance = 0;    // of the times that ranks took, before any waiting
  double bound_gap = 0;             // of the plan above what no plan can beat, relative
  double saving_seconds = 0;        // expected of a plan when it was decided
  double saving_error_seconds = 0;  // its standard error
  double plan_seconds = 0;          // on a loader thread, ahead of the step
};

// What became of all samples since the run's first step, on all ranks together.
struct SampleCount {
  uint64_t seen = 0, bad = 0, too_long = 0, cut = 0;  // cut: to data.max_tokens, and trained on
};

// Global numbers of one finished step, from rank 0. Times are arguments: nothing in metrics reads a clock but to wait.
struct StepReport {
  int64_t step = 0;  // finished steps: 1 is the first
  int64_t total_steps = 0;
  double loss = 0;  // mean over supervised tokens; may be NaN
  double learning_rate = 0;
  double grad_norm = 0;                                    // before clipping; may be NaN
  bool skipped = false;                                    // not finite, nothing was changed
  int64_t supervised_tokens = 0, tokens = 0, samples = 0;  // of this step, all ranks
  SampleCount counted;                                     // up to this step
  double step_seconds = 0;
  std::optional<double> mfu;  // share of the devices' stated peak, where one is stated
  int64_t memory_bytes = 0;   // in use by rank 0: of the device, or resident where the device is the host
  int64_t peak_memory_bytes = 0;
  // Parts of step_seconds on rank 0's training thread; see rest_seconds().
  double data_wait_seconds = 0;          // exposed loading time
  double model_seconds = 0;              // forward and backward
  double peer_wait_seconds = 0;          // for slower ranks
  double reduction_exposed_seconds = 0;  // what backward did not hide
  double optimizer_seconds = 0;
  // Processor time of the step: of all threads of rank 0, of its training thread, and of that one's parts.
  double cpu_seconds = 0, thread_cpu_seconds = 0, model_cpu_seconds = 0, optimizer_cpu_seconds = 0;

  std::optional<BalanceReport> balance;             // where there is more than one rank
  std::optional<double> copies_hidden;              // share of the gradients' way from the device that backward hid
  double unix_seconds = 0;                          // when the step ended, as the machine's clock is set: to be shown
  double elapsed_seconds = 0;                       // since the run was started, this process's; never goes back
  std::vector<std::pair<std::string, double>> aux;  // further losses by the model's names
};

// What is left of a step: the runtime's own work between the parts.
inline double rest_seconds(const StepReport& report) {
  return report.step_seconds - report.data_wait_seconds - report.model_seconds - report.peer_wait_seconds -
         report.reduction_exposed_seconds - report.optimizer_seconds;
}

inline double per_second(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace lf
