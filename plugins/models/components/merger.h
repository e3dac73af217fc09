// From m x m neighbouring patches to one row of a language model: norm, linear map, GELU, linear map. Qwen-VL's mergers
// norm every patch (deep-stack ones the m² together); InternVL's projector norms the m² together.
#pragma once

#include <string>

#include "components/binding.h"
#include "components/parameter_table.h"
#include "nn/activation.h"

namespace lf::components {

struct MergerConfig {
  int64_t width = 0, merge = 2;  // columns of a patch; m
  int64_t inner = 0, out = 0;    // columns between the two maps, and after them
  bool norm_patches = true;      // false: the norm is over all m² width columns
  nn::NormKind norm = nn::NormKind::kLayer;
  double norm_eps = 1e-6, deviation = 0.02;

  int64_t folded() const { return width * merge * merge; }
};

struct MergerNames {
  std::string norm, up, down;  // without ".weight" and ".bias"
};

// Weight, and bias where the norm has one.
void add_norm(ParameterTable& table, const std::string& name, uint32_t unit, int64_t width, nn::NormKind kind);
// Weight, and bias unless told otherwise.
void add_linear(ParameterTable& table, const std::string& name, uint32_t unit, int64_t out, int64_t in,
                double deviation, bool bias = true);
void add_merger(ParameterTable& table, const MergerConfig& config, uint32_t unit, const MergerNames& names);

struct Merger {
  MergerConfig config;
  nn::Norm norm;
  nn::Linear up, down;

  static Merger take(const MergerConfig& config, Binding& binding);
  // hidden [P, width], the m² patches of a row being neighbours -> [P / m², out].
  at::Tensor operator()(const at::Tensor& hidden) const;
};

}  // namespace lf::components
