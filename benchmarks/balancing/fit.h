// Q8: what is learned of costs from noisy times, on a machine that is known.
#pragma once

#include <cstdint>
#include <string>

namespace lf {

struct Fit {
  double true_imbalance = 0, predicted_imbalance = 0;  // means over the steps 20 to 39, costs of the first 20
  double worst_error = 0;                              // of a seed: |sum predicted / sum true - 1|
  double least_error = 0;  // standard deviation that no unbiased estimate from these times is below, relative
  double drift_steps = 0, worst_drift_steps = 0;  // until 20% more of everything is found; at most 60
  double false_alarms = 0;                        // in 1,000 steps of a steady machine
  bool resume_exact = true;                       // saved and restored at step 20: the same state at step 40
};

// 32 replicas x 4 micro-batches, 2 s fixed a step, 5% noise of a step (10% of a micro-batch), in arrival order.
Fit measure_fit(const std::string& distribution, int64_t pack, int seeds);

}  // namespace lf
