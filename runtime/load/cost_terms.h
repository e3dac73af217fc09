// What a model family states of costs, as terms of the cost model (balance/cost_model.h).
#pragma once

#include <cstdint>
#include <vector>

#include "balance/balancer.h"
#include "load/model_calls.h"

namespace lf {

// One term for each feature that a component's cost grows with in proportion: floating-point operations, forward and
// backward, so that priors are 1. A component whose cost is no such sum has one term, the whole of it. Found out by
// asking for the cost of made-up atoms; the same on every rank.
class CostTerms {
 public:
  explicit CostTerms(const ModelCalls& model);

  const std::vector<ComponentTerms>& components() const { return components_; }
  // Appends the amounts of one atom, in the order of the component's terms, and returns the bytes that it keeps from
  // forward to backward.
  int64_t append(uint32_t component, const double* numbers, std::vector<double>& amounts) const;

 private:
  struct Feature {
    uint32_t index = 0;
    double operations = 0, bytes = 0;  // of one unit of it
  };
  const ModelCalls& model_;
  std::vector<ComponentTerms> components_;
  std::vector<std::vector<Feature>> features_;  // by component; none: the whole cost is one term
};

}  // namespace lf
