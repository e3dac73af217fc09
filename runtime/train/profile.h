// profile.json: what training measured of the machine, for `lfrun balance --scaling`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "balance/cost_model.h"
#include "comm/group.h"
#include "load/load.h"
#include "metrics/report.h"
#include "model/communicator.h"

namespace lf {

// Of steps after the first few, in which memory is allocated and caches are cold; the last count most, as they do for
// the costs that are learned beside it.
class RecentMean {
 public:
  void add(double value) {
    if (++seen_ <= kColdSteps) return;
    sum_ = kKeep * sum_ + value;
    weight_ = kKeep * weight_ + 1;
  }
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  static constexpr int64_t kColdSteps = 3;
  static constexpr double kKeep = 0.98;  // as CostModel's
  int64_t seen_ = 0;
  double sum_ = 0, weight_ = 0;
};

// All-reduces of nothing and of as much as gradients have, up to 64 MB, timed: on the host by the group, or where there
// is a communicator on the device. Zeros in a world of one. Every rank calls it.
struct MeasuredReduction {
  double latency_seconds = 0, bytes_per_second = 0;  // the latter as Profile::bus_bandwidth
};
MeasuredReduction measure_reduction(Group& group, int64_t elements, const Device& device, Communicator* communicator);

struct ProfiledRun {
  double gradient_bytes = 0;
  double exposed_seconds = 0, compute_seconds = 0;  // means of a step; compute of the mean rank
  double other_seconds = 0;                         // and what a step takes beside the slowest rank's and exposed
  int world_size = 1, micro_batches = 1;
};

// A file that cannot be written is a warning: the run is done.
void write_profile(const std::filesystem::path& path, const CostModel& costs, const MeasuredReduction& reduction,
                   const ProfiledRun& run);

double mean(const std::vector<double>& values);  // 0 of none
// The slowest over the mean, minus 1, of the times that are times.
double imbalance_of(const std::vector<double>& seconds);
BalanceReport balance_report(const StepBalance& balance, const std::vector<double>& compute_seconds);

}  // namespace lf
