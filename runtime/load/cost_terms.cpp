#include "load/cost_terms.h"

#include <cmath>

namespace lf {
namespace {

// Sizes as real atoms have them: some costs have thresholds (a sparse attention that keeps the best 2,048 tokens).
constexpr double kSmall = 16, kLarge = 65536;

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

CostTerms::CostTerms(const ModelCalls& model) : model_(model) {
  for (uint32_t c = 0; c < model.components().size(); ++c) {
    const ComponentShape& shape = model.components()[c];
    ComponentTerms component{shape.name, {}};
    std::vector<Feature> features;
    std::vector<double> atom(shape.n_features, 0.0);
    bool proportional = model.operations(c, atom.data()) == 0;
    double sum = 0;
    for (uint32_t f = 0; f < shape.n_features; ++f) {
      atom.assign(shape.n_features, 0.0);
      atom[f] = kSmall;
      const double small = model.operations(c, atom.data());
      atom[f] = kLarge;
      const double large = model.operations(c, atom.data());
      proportional = proportional && close(large, small * (kLarge / kSmall));
      sum += large;
      if (large <= 0) continue;
      features.push_back({f, large / kLarge});
      component.terms.push_back({shape.name + "." + shape.features[f], 1});
    }
    atom.assign(shape.n_features, kLarge);
    if (!proportional || features.empty() || !close(model.operations(c, atom.data()), sum)) {
      features.clear();
      component.terms = {{shape.name + ".operations", 1}};
    }
    components_.push_back(std::move(component));
    features_.push_back(std::move(features));
  }
}

void CostTerms::append(uint32_t component, const double* numbers, std::vector<double>& amounts) const {
  if (features_[component].empty()) amounts.push_back(model_.operations(component, numbers));
  for (const Feature& feature : features_[component]) amounts.push_back(numbers[feature.index] * feature.operations);
}

}  // namespace lf
