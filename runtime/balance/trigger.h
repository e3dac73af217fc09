// Whether a step is worth balancing: what it should save, against what that costs and how sure the model is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/balance.h"

namespace lf {

struct TriggerSettings {
  double errors = 2;           // standard errors that the saving must be above
  double exposed_seconds = 0;  // what applying a plan adds to a step; 0 where samples are loaded by plan
};

struct Decision {
  bool balance = false;
  double arrival_seconds = 0;   // the objective, were nothing moved
  double mean_seconds = 0;      // the same if all replicas were done together
  double expected_seconds = 0;  // the objective of a plan, as plans have come out so far
  double standard_error = 0;    // of the saving
  double saving() const { return arrival_seconds - expected_seconds; }
  double imbalance() const { return mean_seconds > 0 ? arrival_seconds / mean_seconds - 1 : 0; }
};

// What the decision is made from; O(atoms), and small beside a plan. `gap`: how far above their bound plans are.
// standard_error is left 0.
Decision weigh(const BalanceInput& input, double gap);

// Sets `balance`.
void decide(Decision& decision, const TriggerSettings& settings);

}  // namespace lf
