// The model family's half of loading, as C++: what a sample needs, costs, and becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "lf/plugin_api/model.h"

namespace lf {

struct ComponentShape {
  std::string name;
  uint32_t n_units = 0, n_features = 0;
  std::vector<std::string> features;  // names
};

// Atoms of one sample: counts per component, and per component atoms x n_features numbers, row-major.
struct AtomFeatures {
  std::vector<uint32_t> atoms;
  std::vector<std::vector<double>> numbers;

  int64_t rows() const { return static_cast<int64_t>(numbers.back()[0]); }  // of the last component
  double loss_weight() const { return numbers.back()[1]; }
};

// Thread-safe, as the table is. Errors that are not a sample's fault are lf::Error naming place and family's message.
class ModelCalls {
 public:
  // Throws kBug-like errors (kConfig) where the family does not describe what loading needs.
  ModelCalls(const lf_model_api* api, lf_model model);

  const std::vector<ComponentShape>& components() const { return components_; }

  // max_rows 0: uncut. Throws BadSample "file:line: reason".
  AtomFeatures features(const Sample& sample, int64_t max_rows) const;

  // One sample of a micro-batch and where it is cut (0: nowhere).
  struct Part {
    const Sample* sample;
    int64_t max_rows;
  };
  // The columns, to be released by the caller. Throws BadSample without telling which of several it was.
  std::vector<lf_named_tensor> collate(const std::vector<Part>& parts) const;

  // Of one atom of a component, all its units: forward and backward, and what is kept in between. Where the family
  // states no cost: its rows, and no bytes.
  struct AtomCost {
    double operations = 0, saved_bytes = 0;
  };
  AtomCost cost(uint32_t component, const double* numbers) const;

 private:
  const lf_model_api* api_;
  lf_model model_;
  std::vector<ComponentShape> components_;
};

}  // namespace lf
