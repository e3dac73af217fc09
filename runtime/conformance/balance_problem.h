// Steps to be balanced, drawn from a seed, and what every plan must hold (lf/plugin_api/balancer.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lf/plugin_api/balancer.h"

namespace lf::kit {

struct Part {
  std::string name;
  bool tied = true;
  int64_t row_limit = 0;
  std::vector<uint64_t> sample;
  std::vector<double> seconds;
  std::vector<int64_t> rows, bytes;
  std::vector<int32_t> arrival_replica, arrival_micro_batch;
  friend bool operator==(const Part&, const Part&) = default;
};

struct Problem {
  int32_t replicas = 1, micro_batches = 1, objective = LF_OBJECTIVE_SUM;
  uint64_t samples = 0;
  std::vector<double> speed;  // per replica; empty: all 1
  std::vector<Part> parts;    // the last has one atom per sample
  size_t atoms() const;
  friend bool operator==(const Problem&, const Problem&) = default;
};

using Plan = std::vector<lf_assignment>;

enum class Costs { kUniform, kEqual, kZero, kLongTail };

// The arrival keeps every promise, so that there always is a plan.
struct Drawing {
  uint64_t samples = 0;
  int32_t replicas = 4, micro_batches = 2;
  Costs costs = Costs::kUniform;
  bool limits = false, tight = false;  // rows per place; tight: no more than the arrival needs
  bool vision = false, tied = true;    // a first part with 0 to 3 atoms a sample
  bool slow_replica = false;
  int32_t objective = LF_OBJECTIVE_SUM;
};
Problem draw(const Drawing& drawing, uint32_t seed);

// The samples in another order.
Problem permute(const Problem& problem, uint32_t seed);

// Throws Broken: each atom once, places in range, orders 0 to n-1, limits, ties, no place empty that need not be.
void expect_valid(const Problem& problem, const Plan& plan);

double slowest_replica(const Problem& problem, const Plan& plan);  // seconds

// A view of the problem for the call; the problem must outlive it.
class BorrowedInput {
 public:
  explicit BorrowedInput(const Problem& problem);
  const lf_balance_input* get() const { return &input_; }

 private:
  std::vector<lf_balance_part> parts_;
  lf_balance_input input_;
};

}  // namespace lf::kit
