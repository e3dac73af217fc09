#include "balance/validate.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace lf {
namespace {

[[noreturn]] void refuse_atom(const BalanceInput& input, const BalancePart& part, size_t i) {
  if (part.sample[i] >= input.n_samples || (i > 0 && part.sample[i] < part.sample[i - 1]))
    fail(Exit::kBug, "balance: part {}: atom {} belongs to sample {} of {}; expected samples in order", part.name, i,
         part.sample[i], input.n_samples);
  if (!(part.seconds[i] >= 0) || !std::isfinite(part.seconds[i]))
    fail(Exit::kBug, "balance: part {}: the cost of atom {} (sample {}) is {}; expected a finite number >= 0",
         part.name, i, part.sample[i], part.seconds[i]);
  if (part.rows[i] < 0 || part.bytes[i] < 0)
    fail(Exit::kBug, "balance: part {}: atom {} (sample {}) has {} rows and {} bytes; expected none below 0", part.name,
         i, part.sample[i], part.rows[i], part.bytes[i]);
  fail(Exit::kBug, "balance: part {}: atom {} arrives at replica {}, micro-batch {}, of {} x {}", part.name, i,
       part.arrival_replica[i], part.arrival_micro_batch[i], input.replicas, input.micro_batches);
}

// Comparisons only, and all of them of an atom at once: this runs over every atom of every step.
void check_atoms(const BalanceInput& input, const BalancePart& part) {
  const size_t n = part.sample.size();
  if (part.seconds.size() != n || part.rows.size() != n || part.bytes.size() != n || part.arrival_replica.size() != n ||
      part.arrival_micro_batch.size() != n)
    fail(Exit::kBug, "balance: part {}: expected {} values in every column; this is a fault of lfrun, please report it",
         part.name, n);
  const auto replicas = static_cast<uint32_t>(input.replicas),
             micro_batches = static_cast<uint32_t>(input.micro_batches);
  uint64_t before = 0;
  for (size_t i = 0; i < n; ++i) {
    const double seconds = part.seconds[i];
    const bool good = (part.sample[i] < input.n_samples) & (part.sample[i] >= before) & (seconds >= 0) &
                      (seconds <= std::numeric_limits<double>::max()) & ((part.rows[i] | part.bytes[i]) >= 0) &
                      (static_cast<uint32_t>(part.arrival_replica[i]) < replicas) &
                      (static_cast<uint32_t>(part.arrival_micro_batch[i]) < micro_batches);
    if (!good) refuse_atom(input, part, i);
    before = part.sample[i];
  }
}

// Rows and bytes of whole samples where a part is tied, of atoms where it is not: no plan can split those.
void check_fits(const BalancePart& part, const std::vector<int64_t>& amount, int64_t limit, const char* unit) {
  if (limit <= 0) return;
  int64_t sum = 0;
  for (size_t i = 0; i < amount.size(); ++i) {
    const bool same = part.tied && i > 0 && part.sample[i] == part.sample[i - 1];
    sum = same ? sum + amount[i] : amount[i];
    if (sum > limit)
      fail(Exit::kBadData,
           "balance: sample {} of the step has {} {} in part {}, above the limit of {} for one micro-batch; raise "
           "data.max_tokens, or let long samples be skipped or cut with data.too_long",
           part.sample[i], sum, unit, part.name, limit);
  }
}

struct Totals {
  int64_t rows = 0, bytes = 0;
  size_t atoms = 0;
};

class PlanCheck {
 public:
  PlanCheck(const std::string& policy_id, const BalanceInput& input) : policy_id_(policy_id), input_(input) {}

  void check_places(const BalancePart& part, std::span<const lf_assignment> places) {
    sum_up(part, places);
    check_orders(part, places);
  }

  void check_part(const BalancePart& part, std::span<const lf_assignment> places) {
    check_places(part, places);
    check_limits(part);
  }

  void check_all_tied(std::span<const lf_assignment> assignments) const {
    const std::span<const lf_assignment> of_samples = assignments.last(input_.n_samples);
    for (const BalancePart& part : input_.parts) {
      const bool is_last = &part == &input_.parts.back();  // whose atoms are the samples
      if (part.tied && !is_last) check_tied(part, assignments.first(part.sample.size()), of_samples);
      assignments = assignments.subspan(part.sample.size());
    }
  }

  void check_tied(const BalancePart& part, std::span<const lf_assignment> places,
                  std::span<const lf_assignment> samples) const {
    for (size_t i = 0; i < places.size(); ++i) {
      const lf_assignment& of_sample = samples[part.sample[i]];
      if (places[i].replica != of_sample.replica || places[i].micro_batch != of_sample.micro_batch)
        refuse(fmt::format("atom {} of part {} is at replica {}, micro-batch {}, apart from its sample {} at {}, {}", i,
                           part.name, places[i].replica, places[i].micro_batch, part.sample[i], of_sample.replica,
                           of_sample.micro_batch));
    }
  }

  void check_none_empty() const {
    if (input_.n_samples < totals_.size()) return;
    for (size_t slot = 0; slot < totals_.size(); ++slot)
      if (totals_[slot].atoms == 0)
        refuse(fmt::format("micro-batch {} of replica {} is empty, and {} samples are enough for {} micro-batches",
                           slot % input_.micro_batches, slot / input_.micro_batches, input_.n_samples, totals_.size()));
  }

  // Of the part checked last.
  SlotOrder take_order() { return std::move(order_); }

 private:
  void sum_up(const BalancePart& part, std::span<const lf_assignment> places) {
    totals_.assign(static_cast<size_t>(input_.replicas) * input_.micro_batches, Totals{});
    for (size_t i = 0; i < places.size(); ++i) {
      const lf_assignment& place = places[i];
      if (place.replica < 0 || place.replica >= input_.replicas || place.micro_batch < 0 ||
          place.micro_batch >= input_.micro_batches)
        refuse(fmt::format("atom {} of part {} is at replica {}, micro-batch {}; expected a place among {} x {}", i,
                           part.name, place.replica, place.micro_batch, input_.replicas, input_.micro_batches));
      Totals& total = totals_[slot_of(place)];
      total.rows += part.rows[i];
      total.bytes += part.bytes[i];
      ++total.atoms;
    }
  }

  // Each order number of a micro-batch once: then no atom is missing and none is there twice.
  void check_orders(const BalancePart& part, std::span<const lf_assignment> places) {
    constexpr uint32_t kFree = std::numeric_limits<uint32_t>::max();
    order_.first.resize(totals_.size() + 1);
    for (size_t slot = 0; slot < totals_.size(); ++slot)
      order_.first[slot + 1] = order_.first[slot] + totals_[slot].atoms;
    order_.samples.assign(places.size(), kFree);
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t slot = slot_of(places[i]);
      const auto order = static_cast<uint32_t>(places[i].order);
      if (order >= totals_[slot].atoms || order_.samples[order_.first[slot] + order] != kFree)
        refuse(fmt::format(
            "atom {} of part {} has order {} in replica {}, micro-batch {}; expected each of 0 to {} once", i,
            part.name, places[i].order, places[i].replica, places[i].micro_batch, totals_[slot].atoms - 1));
      order_.samples[order_.first[slot] + order] = static_cast<uint32_t>(i);
    }
  }

  void check_limits(const BalancePart& part) const {
    for (size_t slot = 0; slot < totals_.size(); ++slot) {
      const Totals& total = totals_[slot];
      const bool rows = part.row_limit > 0 && total.rows > part.row_limit;
      const bool bytes = part.byte_limit > 0 && total.bytes > part.byte_limit;
      if (rows || bytes)
        refuse(fmt::format("micro-batch {} of replica {} has {} {} of part {}, above the limit of {}",
                           slot % input_.micro_batches, slot / input_.micro_batches, rows ? total.rows : total.bytes,
                           rows ? "rows" : "bytes", part.name, rows ? part.row_limit : part.byte_limit));
    }
  }

  size_t slot_of(const lf_assignment& place) const {
    return static_cast<size_t>(place.replica) * input_.micro_batches + place.micro_batch;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(Exit::kConfig,
         "balancer {}: the plan of step {} is refused: {}; choose another balance.policy, or have it mended",
         policy_id_, input_.step + 1, what);
  }

  const std::string& policy_id_;
  const BalanceInput& input_;
  std::vector<Totals> totals_;  // of the part checked last, by replica, then micro-batch
  SlotOrder order_;             // of the same part
};

}  // namespace

void validate_input(const BalanceInput& input) {
  if (input.replicas < 1 || input.micro_batches < 1 || input.parts.empty())
    fail(Exit::kBug, "balance: expected at least one replica, micro-batch and part, got {}, {} and {}", input.replicas,
         input.micro_batches, input.parts.size());
  if (!input.speed.empty() && input.speed.size() != static_cast<size_t>(input.replicas))
    fail(Exit::kBug, "balance: {} speeds for {} replicas", input.speed.size(), input.replicas);
  for (const double speed : input.speed)
    if (!(speed > 0) || !std::isfinite(speed)) fail(Exit::kBug, "balance: the speed of a replica is {}", speed);
  if (!(input.fixed_seconds >= 0) || !std::isfinite(input.fixed_seconds))
    fail(Exit::kBug, "balance: fixed seconds are {}", input.fixed_seconds);
  for (const BalancePart& part : input.parts) {
    check_atoms(input, part);
    check_fits(part, part.rows, part.row_limit, "rows");
    check_fits(part, part.bytes, part.byte_limit, "bytes");
  }
  const BalancePart& last = input.parts.back();
  bool one_each = last.sample.size() == input.n_samples;
  for (size_t i = 0; one_each && i < last.sample.size(); ++i) one_each = last.sample[i] == i;
  if (!one_each)
    fail(Exit::kBug, "balance: part {} has {} atoms for {} samples; the last part has one atom for each sample",
         last.name, last.sample.size(), input.n_samples);
}

SlotOrder validate_plan(const std::string& policy_id, const BalanceInput& input,
                        std::span<const lf_assignment> assignments) {
  PlanCheck check(policy_id, input);
  std::span<const lf_assignment> rest = assignments;
  for (const BalancePart& part : input.parts) {
    check.check_part(part, rest.first(part.sample.size()));
    rest = rest.subspan(part.sample.size());
  }
  check.check_none_empty();  // of the last part, which was summed up last
  check.check_all_tied(assignments);
  return check.take_order();
}

void validate_places(const std::string& policy_id, const BalanceInput& input,
                     std::span<const lf_assignment> assignments) {
  PlanCheck check(policy_id, input);
  std::span<const lf_assignment> rest = assignments;
  for (const BalancePart& part : input.parts) {
    check.check_places(part, rest.first(part.sample.size()));
    rest = rest.subspan(part.sample.size());
  }
  check.check_all_tied(assignments);
}

}  // namespace lf
