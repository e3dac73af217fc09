#include "train/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "balance/scaling.h"
#include "core/log.h"
#include "core/whole_file.h"

namespace lf {
namespace {

constexpr int kTries = 5;  // the fastest counts
constexpr int64_t kMostElements = (64 << 20) / sizeof(float);

double fastest(Group& group, const std::function<void()>& all_reduce) {
  double best = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    group.barrier();
    const auto begun = std::chrono::steady_clock::now();
    all_reduce();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  return best;
}

}  // namespace

MeasuredReduction measure_reduction(Group& group, int64_t elements, const Device& device, Communicator* communicator) {
  if (group.size() < 2 || elements == 0) return {};
  const auto many = static_cast<size_t>(std::min(elements, kMostElements));
  std::vector<float> on_host;
  Device::Memory on_device;
  if (communicator != nullptr)
    on_device = Device::Memory(device, many * sizeof(float));
  else
    on_host.assign(many, 0.0F);
  const auto seconds_of = [&](size_t count) {
    return fastest(group, [&] {
      if (communicator == nullptr) return group.all_reduce(std::span(on_host).first(count));
      communicator->all_reduce_f32(on_device.data(), count, nullptr);
      device.synchronize();
      communicator->require_sound();
    });
  };
  const double latency = seconds_of(1);
  const double seconds = std::max(seconds_of(many) - latency, 1e-9);
  const auto ranks = static_cast<double>(group.size());
  const double bytes = 2 * (ranks - 1) / ranks * static_cast<double>(many * sizeof(float));
  return {latency / std::ceil(std::log2(ranks)), bytes / seconds};
}

void write_profile(const std::filesystem::path& path, const CostModel& costs, const MeasuredReduction& reduction,
                   const ProfiledRun& run) {
  Profile profile;
  profile.flops_per_second = costs.units_per_second();
  profile.fixed_seconds = costs.fixed_seconds();
  profile.gradient_bytes = run.gradient_bytes;
  profile.noise = costs.own_noise();
  profile.other_seconds = std::max(0.0, run.other_seconds);
  // The sum of what was measured apart: costs and steps are then of the same time, also where a machine has changed.
  profile.measured = MeasuredStep{run.world_size, run.micro_batches,
                                  costs.slowest_seconds() + run.exposed_seconds + profile.other_seconds};
  if (reduction.bytes_per_second > 0) {
    profile.bus_bandwidth = reduction.bytes_per_second;
    profile.latency_seconds = reduction.latency_seconds;
    const double hidden = communication_seconds(profile, run.world_size) - run.exposed_seconds;
    // What was hidden is a lower bound of what could be, where all of it was.
    const bool all = run.exposed_seconds < 0.1 * communication_seconds(profile, run.world_size);
    if (run.compute_seconds > 0)
      profile.overlap = std::clamp(hidden / run.compute_seconds, all ? std::min(profile.overlap, 1.0) : 0.0, 1.0);
  }
  if (const std::error_code error = replace_file(path, profile_text(profile, costs.fit_json(run.world_size))))
    log::warning(
        "{} cannot be written ({}); `lfrun balance --scaling` will have to do without it, or with an earlier one",
        path.string(), error.message());
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double imbalance_of(const std::vector<double>& seconds) {
  double most = 0, sum = 0, count = 0;
  for (const double s : seconds) {
    if (!std::isfinite(s) || s <= 0) continue;
    most = std::max(most, s);
    sum += s;
    ++count;
  }
  return sum > 0 ? most * count / sum - 1 : 0;
}

BalanceReport balance_report(const StepBalance& balance, const std::vector<double>& compute_seconds) {
  return {.planned = balance.planned,
          .arrival_imbalance = balance.arrival_imbalance,
          .predicted_imbalance = balance.predicted_imbalance,
          .measured_imbalance = imbalance_of(compute_seconds),
          .bound_gap = balance.bound_gap,
          .saving_seconds = balance.saving_seconds,
          .saving_error_seconds = balance.saving_error,
          .plan_seconds = balance.plan_seconds};
}

}  // namespace lf
