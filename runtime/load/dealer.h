// Who trains what, step after step: plans by costs that the model states, or that are learned from the steps before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "balance/balancer.h"
#include "load/cost_terms.h"
#include "load/packing.h"

namespace lf {

struct Deal {
  std::vector<std::vector<std::vector<uint32_t>>> samples;  // [rank][micro-batch]: indices into step.samples
  StepBalance balance;
};

// Every rank deals every step and comes to the same result: a plan is made from the step's features and from the times
// of exactly those steps that lie at least `lag` before it, however far each rank is.
class Dealer {
 public:
  // lag: how many steps before the one that is dealt has surely been observed when it is dealt.
  Dealer(const LoaderInputs& inputs, const ModelCalls& model, int32_t ranks, int64_t lag);

  // On the loader's thread, in the order of steps. Without a policy, and for what policies start from, micro-batch b of
  // the step is micro-batch b % per_rank of rank b / per_rank.
  Deal deal(const PackedStep& step, int64_t number);

  // Compute seconds of every rank in a step, or of its micro-batches; once a step, in order. Any thread.
  void observe(int64_t step, std::vector<double> seconds);

  // What a run that goes on after step `last` needs, given what deal(last) left in StepBalance.
  std::string state(const BalanceMemory& after_last) const;
  // The same with all observations taken in.
  BalanceMemory latest(BalanceMemory memory) const;

 private:
  void restore(const std::string& state);
  StepAtoms atoms_of(const PackedStep& step, int64_t number) const;

  const LoaderInputs& inputs_;
  const ModelCalls& model_;
  const int32_t ranks_;
  const int64_t lag_;
  std::unique_ptr<CostTerms> terms_;    // null, as the balancer: nothing is balanced
  std::unique_ptr<Balancer> balancer_;  // of the loader's thread
  int64_t told_at_ = 8;                 // steps observed when costs are told next

  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<double>> observed_;  // the last lag_ + what is not taken in yet
  int64_t taken_ = -1;                               // the last step that was
};

}  // namespace lf
