// Where a run's numbers go: a progress line, metrics.jsonl, status.json, TensorBoard events, and at the end curves.svg.
//
// Sinks only: nothing is read back but metrics.jsonl when a run is resumed. Writing happens on a thread of its own
// behind a bounded queue, so a slow or full disk, or a terminal that stands still, never holds or fails a step.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "metrics/progress.h"
#include "metrics/report.h"

namespace lf {

struct MetricsConfig {
  std::filesystem::path folder;  // the run directory; must exist
  std::string title;             // of curves.svg: the job's name
  int64_t finished_steps = 0;    // of earlier processes of the run; rows of later steps are dropped
  double start_unix_seconds = 0;
  bool tensorboard = true;
  Progress::Options progress;
};

// On rank 0 only.
class Metrics {
 public:
  // Opens the files. Throws lf::Error(kCannotCreate, kIo): a run that cannot begin its files should not begin.
  explicit Metrics(MetricsConfig config);
  // As finish("stopped") where nobody said how it ended.
  ~Metrics();

  // From one thread. Never blocks, never throws: what cannot be written is warned of once for each file, and counted;
  // what the queue cannot hold is dropped and counted.
  void write(StepReport report) noexcept;

  // Writes all there is, status.json with this state ("done", "saved", "failed: why"), and curves.svg. Waits for that,
  // but not for ever.
  void finish(const std::string& state) noexcept;
  int64_t dropped() const;  // reports so far

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lf
