// How long a run still takes. Internal to metrics.
#pragma once

#include <optional>

#include "metrics/report.h"

namespace lf {

// The time from one report to the next, checkpoints and all, smoothed over about ten steps. By the clock that nobody
// sets.
class Pace {
 public:
  void add(const StepReport& report) {
    const double seconds = last_ ? report.elapsed_seconds - *last_ : report.step_seconds;
    seconds_ = last_ ? 0.9 * seconds_ + 0.1 * seconds : seconds;
    last_ = report.elapsed_seconds;
    left_steps_ = report.total_steps - report.step;
  }
  std::optional<double> left_seconds() const {
    if (!last_ || left_steps_ < 0) return std::nullopt;
    return static_cast<double>(left_steps_) * seconds_;
  }

 private:
  std::optional<double> last_;
  double seconds_ = 0;
  int64_t left_steps_ = 0;
};

}  // namespace lf
