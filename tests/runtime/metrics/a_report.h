// A step's report with plausible numbers, for metrics tests.
#pragma once

#include "metrics/report.h"

namespace lf::test {

inline StepReport a_report(int64_t step, int64_t total = 60) {
  StepReport report;
  report.step = step;
  report.total_steps = total;
  report.loss = 9.0 / static_cast<double>(step) + 2.0;
  report.learning_rate = 1e-4 * static_cast<double>(step);
  report.grad_norm = 1.25;
  report.supervised_tokens = 1550;
  report.tokens = 2600;
  report.samples = 4;
  report.step_seconds = 0.5;
  report.memory_bytes = 1'234'000'000;
  report.peak_memory_bytes = 1'500'000'000;
  report.data_wait_seconds = 0.01;
  report.reduction_exposed_seconds = 0.02;
  report.unix_seconds = 1'700'000'000 + 0.5 * static_cast<double>(step);
  report.elapsed_seconds = 0.5 * static_cast<double>(step);
  return report;
}

}  // namespace lf::test
