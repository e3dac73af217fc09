// What ranks tell each other once a step: sums of losses, whether somebody was asked to stop.
#pragma once

#include <cstdint>
#include <vector>

#include "core/exchange.h"
#include "model/runner.h"

namespace lf {

struct StepSums {
  double loss_sum = 0, loss_weight = 0;
  std::vector<double> aux;
  bool stop = false;                        // any rank was asked to
  std::vector<double> compute_seconds;      // per rank: own work, before any waiting
  std::vector<double> micro_batch_seconds;  // [ranks, micro-batches], their part of it
};

// Gathers the micro-batches of all ranks and adds them in their global order, so that sums do not depend on how they
// were dealt. `micro_batch_seconds`: of each of `own`. Every rank calls it once a step.
StepSums exchange_sums(Exchange& exchange, const std::vector<RunResult>& own, size_t n_aux, bool stop,
                       double compute_seconds, const std::vector<double>& micro_batch_seconds);

}  // namespace lf
