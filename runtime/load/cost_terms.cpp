#include "load/cost_terms.h"

#include <algorithm>
#include <cmath>

namespace lf {
namespace {

// Sizes as real atoms have them: some costs have thresholds (a sparse attention that keeps the best 2,048 tokens).
constexpr double kSmall = 16, kLarge = 65536;

// Bytes are whole numbers, rounded in every unit.
bool close(double a, double b) { return std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

CostTerms::CostTerms(const ModelCalls& model) : model_(model) {
  for (uint32_t c = 0; c < model.components().size(); ++c) {
    const ComponentShape& shape = model.components()[c];
    ComponentTerms component{shape.name, {}};
    std::vector<Feature> features;
    std::vector<double> atom(shape.n_features, 0.0);
    const ModelCalls::AtomCost nothing = model.cost(c, atom.data());
    bool proportional = nothing.operations == 0 && nothing.saved_bytes == 0;
    ModelCalls::AtomCost sum;
    for (uint32_t f = 0; f < shape.n_features; ++f) {
      atom.assign(shape.n_features, 0.0);
      atom[f] = kSmall;
      const ModelCalls::AtomCost small = model.cost(c, atom.data());
      atom[f] = kLarge;
      const ModelCalls::AtomCost large = model.cost(c, atom.data());
      proportional = proportional && close(large.operations, small.operations * (kLarge / kSmall)) &&
                     close(large.saved_bytes, small.saved_bytes * (kLarge / kSmall));
      sum.operations += large.operations;
      sum.saved_bytes += large.saved_bytes;
      if (large.operations <= 0 && large.saved_bytes <= 0) continue;
      features.push_back({f, large.operations / kLarge, large.saved_bytes / kLarge});
      if (large.operations > 0) component.terms.push_back({shape.name + "." + shape.features[f], 1});
    }
    atom.assign(shape.n_features, kLarge);
    const ModelCalls::AtomCost all = model.cost(c, atom.data());
    if (!proportional || component.terms.empty() || !close(all.operations, sum.operations) ||
        !close(all.saved_bytes, sum.saved_bytes)) {
      features.clear();
      component.terms = {{shape.name + ".operations", 1}};
    }
    components_.push_back(std::move(component));
    features_.push_back(std::move(features));
  }
}

int64_t CostTerms::append(uint32_t component, const double* numbers, std::vector<double>& amounts) const {
  if (features_[component].empty()) {
    const ModelCalls::AtomCost cost = model_.cost(component, numbers);
    amounts.push_back(cost.operations);
    return std::llround(cost.saved_bytes);
  }
  double bytes = 0;
  for (const Feature& feature : features_[component]) {
    if (feature.operations > 0) amounts.push_back(numbers[feature.index] * feature.operations);
    bytes += numbers[feature.index] * feature.bytes;
  }
  return std::llround(bytes);
}

}  // namespace lf
