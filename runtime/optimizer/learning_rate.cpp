#include "optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lf {
namespace {

double cosine(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

}  // namespace

int64_t warmup_steps(const ScheduleSection& schedule, int64_t total_steps) {
  if (schedule.warmup_steps > 0) return schedule.warmup_steps;
  return static_cast<int64_t>(std::ceil(schedule.warmup_fraction * static_cast<double>(total_steps)));
}

double learning_rate(const ScheduleSection& schedule, double peak, int64_t total_steps, int64_t step) {
  const int64_t warmup = warmup_steps(schedule, total_steps);
  const double floor = schedule.final_fraction;
  const auto above_floor = [&](double share) { return peak * (share * (1.0 - floor) + floor); };
  step = std::min(step, total_steps);
  if (schedule.name == "wsd") {
    const auto decay = std::min<int64_t>(std::llround(schedule.decay_fraction * static_cast<double>(total_steps)),
                                         std::max<int64_t>(0, total_steps - warmup));
    if (step < warmup) return above_floor(ratio(step, warmup));
    if (step < total_steps - decay) return peak;
    return above_floor(cosine(ratio(step - (total_steps - decay), decay)));
  }
  if (step < warmup) return peak * ratio(step, warmup);
  if (schedule.name == "constant") return peak;
  const double progress = ratio(step - warmup, total_steps - warmup);
  if (schedule.name == "linear") return above_floor(1.0 - progress);
  if (schedule.name == "cosine") return above_floor(cosine(progress));
  fail(Exit::kConfig, "schedule.name: expected constant, linear, cosine or wsd, got {}", schedule.name);
}

std::string moved_schedule(const ScheduleSection& schedule, double peak, int64_t was, int64_t is, int64_t step) {
  const int64_t warmup = std::max(warmup_steps(schedule, was), warmup_steps(schedule, is));
  const bool same_warmup = warmup_steps(schedule, was) == warmup_steps(schedule, is);
  if (was == is || step >= is || (schedule.name == "constant" && (same_warmup || step >= warmup))) return "";
  const double due = learning_rate(schedule, peak, was, step), now = learning_rate(schedule, peak, is, step);
  const std::string before = step < was ? fmt::format("where {:.4g} was due", due)
                                        : fmt::format("after the schedule had ended at {:.4g}", due);
  return fmt::format(
      "steps: was {}, is {}: the {} schedule now runs to step {}; step {} has a learning rate of {:.4g}, {}", was, is,
      schedule.name, is, step + 1, now, before);
}

}  // namespace lf
