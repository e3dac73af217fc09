#include "train/step_sums.h"

#include <cstring>

#include "core/error.h"

namespace lf {

StepSums exchange_sums(Exchange& exchange, const std::vector<RunResult>& own, size_t n_aux, bool stop,
                       double compute_seconds, const std::vector<double>& micro_batch_seconds) {
  std::vector<double> mine{stop ? 1.0 : 0.0, compute_seconds};
  for (size_t i = 0; i < own.size(); ++i) {
    const RunResult& result = own[i];
    mine.push_back(micro_batch_seconds[i]);
    mine.push_back(result.loss_sum);
    mine.push_back(result.loss_weight);
    for (size_t k = 0; k < n_aux; ++k) mine.push_back(k < result.aux.size() ? result.aux[k] : 0);
  }
  std::string bytes(mine.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());

  StepSums sums;
  sums.aux.assign(n_aux, 0);
  for (const std::string& theirs : exchange.all_gather(bytes)) {
    std::vector<double> values(theirs.size() / sizeof(double));
    std::memcpy(values.data(), theirs.data(), values.size() * sizeof(double));
    if (values.size() < 2 || (values.size() - 2) % (3 + n_aux) != 0)
      fail(Exit::kBug, "a rank's step sums hold {} numbers", values.size());
    sums.stop |= values[0] != 0;
    sums.compute_seconds.push_back(values[1]);
    for (size_t at = 2; at < values.size(); at += 3 + n_aux) {
      sums.micro_batch_seconds.push_back(values[at]);
      sums.loss_sum += values[at + 1];
      sums.loss_weight += values[at + 2];
      for (size_t k = 0; k < n_aux; ++k) sums.aux[k] += values[at + 3 + k];
    }
  }
  return sums;
}

}  // namespace lf
