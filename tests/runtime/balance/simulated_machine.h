// A machine with costs that the tests know: steps of packed samples, and how long each replica takes for them.
#pragma once

#include <string>
#include <vector>

#include "balance/balancer.h"
#include "balance/random.h"
#include "balance/scenario.h"

namespace lf {

struct Machine {
  double linear = 1 / 400e12, attention = 1.7 / 400e12;  // seconds of a FLOP
  double fixed = 0.5;                                    // seconds of a micro-batch
  double noise = 0.05;                                   // standard deviation, relative
  std::vector<double> speed;                             // by replica; empty: all 1
};

// Text only, as the "language" component with the terms linear and attention.
std::vector<ComponentTerms> text_terms();

// A step of `distribution` in packs of so many tokens.
StepAtoms draw_step(const std::string& distribution, int64_t step, int32_t replicas, int32_t micro_batches,
                    int64_t pack, uint64_t seed);

// Amounts of each replica, [replicas, 2], and the seconds that takes; `random` null: without noise.
std::vector<double> amounts_of(const StepAtoms& atoms, const std::vector<lf_assignment>& places, int32_t replicas);
// Of each micro-batch, [replicas, micro-batches, 2]: seconds_of with one micro-batch gives their times.
std::vector<double> micro_batch_amounts_of(const StepAtoms& atoms, const std::vector<lf_assignment>& places,
                                           int32_t replicas);
std::vector<double> seconds_of(const Machine& machine, const std::vector<double>& amounts, int32_t micro_batches,
                               Random* random);
std::vector<lf_assignment> arrival_of(const StepAtoms& atoms);

double imbalance_of(const std::vector<double>& seconds);  // max / mean - 1

}  // namespace lf
