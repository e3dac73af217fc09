#include "balance/certificate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace lf {
namespace {

double speed_of(const BalanceInput& input, int32_t replica) { return input.speed.empty() ? 1 : input.speed[replica]; }

double slowest_replica(const BalanceInput& input, const std::vector<double>& slots) {
  double most = 0;
  for (int32_t r = 0; r < input.replicas; ++r) {
    const auto first = slots.begin() + static_cast<ptrdiff_t>(r) * input.micro_batches;
    most = std::max(most, std::accumulate(first, first + input.micro_batches, 0.0));
  }
  return most;
}

// ---- bounds --------------------------------------------------------------------------------------------------------

// What moves as one: a sample with its tied atoms.
struct Movers {
  std::span<const double> seconds;
  const std::vector<int64_t>* rows = nullptr;  // of the last part
  int64_t row_limit = 0;
};

// One machine group of a bound: the work of one barrier-free stretch.
struct Work {
  double total = 0, heaviest = 0;
  // In four lanes, since one sum has to wait for each of its additions.
  void add(std::span<const double> seconds) {
    constexpr size_t kLanes = 4;
    double sum[kLanes] = {}, most[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= seconds.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        sum[lane] += seconds[i + lane];
        most[lane] = std::max(most[lane], seconds[i + lane]);
      }
    }
    for (; i < seconds.size(); ++i) {
      sum[0] += seconds[i];
      most[0] = std::max(most[0], seconds[i]);
    }
    total += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    heaviest = std::max({heaviest, most[0], most[1], most[2], most[3]});
  }
};

struct Cluster {
  double fastest = 0, speeds = 0;  // largest, and sum
  bool even = true;
};

Cluster cluster_of(const BalanceInput& input) {
  Cluster cluster;
  for (int32_t r = 0; r < input.replicas; ++r) {
    cluster.fastest = std::max(cluster.fastest, speed_of(input, r));
    cluster.speeds += speed_of(input, r);
    cluster.even = cluster.even && speed_of(input, r) == speed_of(input, 0);
  }
  return cluster;
}

// Samples that must keep the heaviest company, since no micro-batch may be empty: the lightest ones there are.
double company(const BalanceInput& input, std::span<const double> seconds) {
  const auto needed = static_cast<size_t>(input.micro_batches - 1);
  if (needed == 0 || seconds.size() < static_cast<size_t>(input.replicas) * input.micro_batches) return 0;
  std::vector<double> lightest(needed);
  std::partial_sort_copy(seconds.begin(), seconds.end(), lightest.begin(), lightest.end());
  return std::accumulate(lightest.begin(), lightest.end(), 0.0);
}

// The least seconds that so many rows take: the cheapest first, cut at will. What a row costs is rounded down to one of
// at most 1,024 steps, so that this takes no sort and is never above the truth. A step is the highest bits of the
// number itself, as many as make so few steps: the order of those bits is the order of the numbers (IEEE 754).
struct CheapestRows {
  explicit CheapestRows(const Movers& movers) : rows(kSteps, 0.0), density(kSteps, 0.0) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    std::vector<double> cost(movers.seconds.size());
    for (size_t i = 0; i < cost.size(); ++i) {
      if ((*movers.rows)[i] <= 0) continue;
      cost[i] = movers.seconds[i] / static_cast<double>((*movers.rows)[i]);
      if (cost[i] > 0) least = std::min(least, cost[i]);
      most = std::max(most, cost[i]);
    }
    if (most <= 0) least = most;
    int shift = 0;
    while ((bits(most) >> shift) - (bits(least) >> shift) >= kSteps) ++shift;
    const uint64_t first = bits(least) >> shift;
    for (size_t i = 0; i < cost.size(); ++i) {
      if ((*movers.rows)[i] <= 0) continue;
      const size_t at = cost[i] > 0 ? static_cast<size_t>((bits(cost[i]) >> shift) - first) : 0;
      rows[at] += static_cast<double>((*movers.rows)[i]);
      free_rows |= cost[i] <= 0;
    }
    for (size_t at = 0; at < kSteps; ++at)
      if (rows[at] > 0) density[at] = std::bit_cast<double>((first + at) << shift) * (1 - 1e-9);
    if (free_rows) density[0] = 0;
  }
  static uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
  static constexpr size_t kSteps = 1024;
  std::vector<double> rows, density;
  bool free_rows = false;
};

// The least level L at which the rows of the step can be held. Two samples above L/2 never share a replica, so each of
// these heavy ones has a replica of its own, and what the other replicas have no room for (M x limit rows each) lies
// beside them. Of these rows all but what fits beside the lighter ones of the heavy lies beside the others, which have
// only the time that is left below L; the rows take at least as long as the cheapest ones would. Equal speeds only.
double limited_makespan(const BalanceInput& input, const Movers& movers, double from) {
  const double room = static_cast<double>(movers.row_limit) * input.micro_batches;
  const double all_rows = static_cast<double>(std::accumulate(movers.rows->begin(), movers.rows->end(), int64_t{0}));
  struct Heavy {
    double seconds, rows;
  };
  std::vector<Heavy> heavy;
  for (size_t i = 0; i < movers.seconds.size(); ++i)
    if (movers.seconds[i] > from / 2) heavy.push_back({movers.seconds[i], static_cast<double>((*movers.rows)[i])});
  if (heavy.empty()) return from;
  std::ranges::sort(heavy, std::greater<>{}, &Heavy::seconds);
  const CheapestRows cheapest(movers);
  const auto holds = [&](double level) {
    size_t alone = 0;
    double beside = all_rows, outside = 0;  // rows beside the heavy; what fits beside those not taken in yet
    for (; alone < heavy.size() && heavy[alone].seconds > level / 2; ++alone) {
      beside -= heavy[alone].rows;
      outside += room - heavy[alone].rows;
    }
    const auto replicas = static_cast<size_t>(input.replicas);
    if (alone > replicas) return false;
    beside -= static_cast<double>(replicas - alone) * room;
    double time = 0, needed = 0, counted = 0;  // seconds of the `counted` cheapest rows
    size_t at = 0;
    double left = cheapest.rows[0];
    for (size_t taken = 0; taken <= alone; ++taken) {
      while (counted < beside - outside && at < CheapestRows::kSteps) {
        const double more = std::min(left, beside - outside - counted);
        counted += more;
        needed += more * cheapest.density[at];
        left -= more;
        if (left <= 0 && ++at < CheapestRows::kSteps) left = cheapest.rows[at];
      }
      if (needed > time * (1 + 1e-9)) return false;
      if (taken == alone) break;
      time += level - heavy[taken].seconds;
      outside -= room - heavy[taken].rows;
    }
    return true;
  };
  if (holds(from)) return from;
  double low = from, high = 2 * from;
  while (!holds(high) && high < 1e3 * from) high *= 2;
  for (int i = 0; i < 40; ++i) (holds((low + high) / 2) ? high : low) = (low + high) / 2;
  return low;
}

// The micro-batch of the heaviest sample lasts as long as it does on all replicas, and they cannot hold more work in it
// than their rows allow: at best the rows of the highest cost. The rest takes at least its mean. Equal speeds only.
double limited_lockstep(const BalanceInput& input, const Movers& movers, double heaviest, double total) {
  std::vector<uint32_t> order(movers.seconds.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto density = [&](uint32_t i) { return movers.seconds[i] / std::max<double>(1, (*movers.rows)[i]); };
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) { return density(a) > density(b); });
  double room = static_cast<double>(movers.row_limit) * input.replicas, held = 0;
  for (const uint32_t i : order) {
    if (room <= 0) break;
    const double share = std::min(1.0, room / std::max<double>(1, (*movers.rows)[i]));
    held += share * movers.seconds[i];
    room -= static_cast<double>((*movers.rows)[i]);
  }
  held = std::min(held, heaviest * input.replicas);
  return heaviest + (total - held) / input.replicas;
}

std::string remedy_for(const BalanceInput& input, const Certificate& certificate) {
  constexpr double kWorthSaying = 1.05;
  if (certificate.mean <= 0 || certificate.lower_bound < kWorthSaying * certificate.mean) return "";
  const double ratio = certificate.lower_bound / certificate.mean;
  if (certificate.limited > certificate.heaviest * 1.001)
    return fmt::format("the limit on rows keeps the bound {:.2f} times above the mean: raise data.max_tokens", ratio);
  return fmt::format(
      "one sample keeps the bound {:.2f} times above the mean: give each step more samples (data.micro_batches), cut "
      "or "
      "skip long samples (data.max_tokens, data.too_long), or spread one sample over several devices{}",
      ratio, input.replicas == 1 ? "" : " (context parallelism)");
}

}  // namespace

namespace {

std::vector<double> nominal_slots(const BalanceInput& input, const BalancePart& part,
                                  std::span<const lf_assignment> places) {
  std::vector<double> slots(static_cast<size_t>(input.replicas) * input.micro_batches, 0.0);
  for (size_t i = 0; i < part.seconds.size(); ++i)
    slots[static_cast<size_t>(places[i].replica) * input.micro_batches + places[i].micro_batch] += part.seconds[i];
  return slots;
}

void slow_down(const BalanceInput& input, std::vector<double>& slots) {
  if (input.speed.empty()) return;
  for (size_t slot = 0; slot < slots.size(); ++slot) slots[slot] /= input.speed[slot / input.micro_batches];
}

}  // namespace

std::vector<double> slot_seconds(const BalanceInput& input, size_t part, std::span<const lf_assignment> assignments) {
  for (size_t p = 0; p < part; ++p) assignments = assignments.subspan(input.parts[p].sample.size());
  std::vector<double> slots = nominal_slots(input, input.parts[part], assignments);
  slow_down(input, slots);
  return slots;
}

double objective_seconds(const BalanceInput& input, std::span<const lf_assignment> assignments) {
  std::vector<std::vector<double>> slots;
  for (const BalancePart& part : input.parts) {
    slots.push_back(nominal_slots(input, part, assignments));
    assignments = assignments.subspan(part.sample.size());
  }
  return objective_of_slots(input, std::move(slots));
}

double objective_of_slots(const BalanceInput& input, std::vector<std::vector<double>> slots_of_parts) {
  for (double& seconds : slots_of_parts.back()) seconds += input.fixed_seconds;
  std::vector<double> all(slots_of_parts.back().size(), 0.0);
  double stages = 0;
  for (std::vector<double>& slots : slots_of_parts) {
    slow_down(input, slots);
    stages += slowest_replica(input, slots);
    for (size_t slot = 0; slot < slots.size(); ++slot) all[slot] += slots[slot];
  }
  switch (input.objective) {
    case LF_OBJECTIVE_MAKESPAN:
    case LF_OBJECTIVE_SUM:
      return slowest_replica(input, all);
    case LF_OBJECTIVE_TWO_STAGE:
      return stages;
    case LF_OBJECTIVE_LOCKSTEP: {
      double sum = 0;
      for (int32_t k = 0; k < input.micro_batches; ++k) {
        double most = 0;
        for (int32_t r = 0; r < input.replicas; ++r)
          most = std::max(most, all[static_cast<size_t>(r) * input.micro_batches + k]);
        sum += most;
      }
      return sum;
    }
    default:
      fail(Exit::kBug, "balance: unknown objective {}", input.objective);
  }
}

Certificate certify(const BalanceInput& input, std::span<const lf_assignment> assignments) {
  Certificate certificate;
  certificate.objective = objective_seconds(input, assignments);

  const Cluster cluster = cluster_of(input);
  const bool staged = input.objective == LF_OBJECTIVE_TWO_STAGE;
  const double fixed = input.fixed_seconds * input.micro_batches;
  Movers movers;
  movers.rows = &input.parts.back().rows;
  movers.row_limit = input.parts.back().row_limit;
  movers.seconds = input.parts.back().seconds;  // one atom a sample, and what is tied to it
  std::vector<double> with_tied;
  std::vector<Work> stages;  // one for each barrier-free stretch
  Work all;
  bool untied = false;
  for (const BalancePart& part : input.parts) {
    Work work;
    if (&part == &input.parts.back()) {
      work.add(part.seconds);
    } else if (part.tied) {
      std::vector<double> of_sample(input.n_samples, 0.0);
      for (size_t i = 0; i < part.sample.size(); ++i) of_sample[part.sample[i]] += part.seconds[i];
      work.add(of_sample);
      if (with_tied.empty()) with_tied = input.parts.back().seconds;
      for (size_t i = 0; i < of_sample.size(); ++i) with_tied[i] += of_sample[i];
      movers.seconds = with_tied;
    } else {
      untied = true;
      work.add(part.seconds);
      all.add(part.seconds);
    }
    stages.push_back(work);
  }
  Work moving;
  moving.add(movers.seconds);
  all.total += moving.total;
  all.heaviest = std::max(all.heaviest, moving.heaviest);
  if (!staged) stages.assign(1, all);

  double mean = input.replicas * fixed / cluster.speeds, heaviest = 0;
  if (staged) stages.back().heaviest += company(input, input.parts.back().seconds);
  for (size_t s = 0; s < stages.size(); ++s) {
    const double stage_mean = stages[s].total / cluster.speeds;
    mean += stage_mean;
    heaviest += std::max(stage_mean, stages[s].heaviest / cluster.fastest);
  }
  heaviest += fixed / cluster.fastest;
  certificate.mean = mean;
  if (input.objective == LF_OBJECTIVE_LOCKSTEP)
    heaviest = (all.heaviest + fixed) / cluster.fastest;
  else if (!staged)
    heaviest = std::max(heaviest, (moving.heaviest + company(input, movers.seconds) + fixed) / cluster.fastest);
  certificate.heaviest = heaviest;
  certificate.lower_bound = std::max(mean, heaviest);

  // The bound by limits costs a sort or a search, and can only tell something where the plan is not at the bound yet.
  constexpr double kTightEnough = 1.001;
  certificate.limited = certificate.lower_bound;
  const bool loose = certificate.objective > kTightEnough * certificate.lower_bound;
  if (loose && cluster.even && movers.row_limit > 0 && !staged && !untied) {
    const double speed = cluster.fastest, rest = fixed / speed;
    certificate.limited =
        input.objective == LF_OBJECTIVE_LOCKSTEP
            ? limited_lockstep(input, movers, all.heaviest, all.total) / speed + rest
            : limited_makespan(input, movers, (certificate.lower_bound - rest) * speed) / speed + rest;
    certificate.lower_bound = std::max(certificate.lower_bound, certificate.limited);
  }
  certificate.remedy = remedy_for(input, certificate);
  return certificate;
}

}  // namespace lf
