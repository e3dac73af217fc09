// Everything about balancing that lives as long as a run: policy, learned costs, trigger. One on every rank, each fed
// with the same numbers in the same order, so that all of them are in the same state and make the same plans.
//
//   per step:  plan(step, atoms gathered from all ranks)  -> who trains what
//              observe(step, seconds of every micro-batch)  once they have come with a later gather
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "balance/balance.h"
#include "balance/cost_model.h"
#include "balance/policy.h"
#include "balance/trigger.h"

namespace lf {

// A component in the cost model: what one of its atoms costs is the sum of its terms.
struct ComponentTerms {
  std::string name;             // "vision"
  std::vector<CostTerm> terms;  // named "vision.linear", ...
};

// One component's atoms of a step over all ranks, in sample order; but for the amounts, as in BalancePart.
struct AtomTable {
  bool tied = true;
  int64_t row_limit = 0, byte_limit = 0;
  std::vector<uint64_t> sample;
  std::vector<int64_t> rows, bytes;
  std::vector<int32_t> arrival_replica, arrival_micro_batch;
  std::vector<double> amounts;  // [atoms, terms of the component]
};

struct StepAtoms {
  int64_t step = 0;
  uint64_t seed = 0, n_samples = 0;
  int32_t objective = LF_OBJECTIVE_SUM, micro_batches = 1;
  std::vector<AtomTable> components;  // in the order of ComponentTerms; the last has one atom per sample
};

struct StepPlan {
  BalancePlan plan;
  Decision decision;
  bool balanced = false;  // else plan is the arrival
};

// Imbalance: slowest replica / mean - 1 of compute seconds.
struct Observation {
  bool known = false;  // the step was planned here and had not been observed yet
  double predicted_imbalance = 0, measured_imbalance = 0;
  bool drifted = false;
};

// What a run knows of costs and plans so far: a value, to be copied, saved and gone on from.
struct BalanceMemory {
  struct Pending {  // planned and not yet observed
    int32_t micro_batches = 0;
    std::vector<double> amounts;  // [replicas, micro-batches, terms]
  };
  CostModel model;
  double gap = 0.01;  // running mean of plans' distance from their bound
  std::map<int64_t, Pending> pending;

  // Compute seconds in that step, before any wait, of every replica, [replicas], or of every micro-batch, [replicas,
  // micro-batches], which tell more; one that is no time (NaN, 0) is left out and counted. Steps may come in any order;
  // one that is not known, or twice, is ignored.
  Observation observe(int64_t step, std::span<const double> seconds);

  // JSON for checkpoints; restore(state()) goes on bit for bit, and a state of another number of replicas gives its
  // costs alone. Throws kBadData for what is no state of these terms.
  std::string state() const;
  void restore(const std::string& state);
};

// What plans are made by. Times differ from run to run; with kStated they are learned from all the same, for people and
// for the profile, and decide nothing.
enum class PlannedBy { kLearned, kStated };

class Balancer {
 public:
  // The policy outlives the balancer.
  Balancer(const Policy& policy, std::vector<ComponentTerms> components, int32_t replicas, TriggerSettings trigger = {},
           PlannedBy planned_by = PlannedBy::kLearned);

  // Pure but for the memory of what was planned. An arrival that breaks a limit is always planned anew. Throws what
  // make_plan throws, and kBug where tables do not fit the components.
  StepPlan plan(const StepAtoms& atoms);

  Observation observe(int64_t step, std::span<const double> seconds) { return memory_.observe(step, seconds); }
  const CostModel& model() const { return memory_.model; }
  const BalanceMemory& memory() const { return memory_; }

  std::string state() const { return memory_.state(); }
  void restore(const std::string& state) { memory_.restore(state); }

 private:
  BalancePlan ask(const BalanceInput& input);
  BalanceInput input_of(const StepAtoms& atoms) const;
  std::vector<double> amounts_by_slot(const StepAtoms& atoms, std::span<const lf_assignment> places) const;
  double error_of_saving(const BalanceInput& input, const std::vector<double>& arrival) const;

  const CostModel& planned_by() const { return stated_ ? *stated_ : memory_.model; }

  const Policy& policy_;
  std::vector<ComponentTerms> components_;
  TriggerSettings trigger_;
  BalanceMemory memory_;
  std::optional<CostModel> stated_;  // as it was before any time; none: plans follow what was learned
};

// Of every rank: the hash of its plan of this step, as gathered. Throws kBug, naming the first rank that made another
// plan than rank 0: before anyone trains on it.
void check_agreement(int64_t step, std::span<const uint64_t> hashes);

}  // namespace lf
