#include "components/merger.h"

namespace lf::components {

void add_norm(ParameterTable& table, const std::string& name, uint32_t unit, int64_t width, nn::NormKind kind) {
  table.push_back(whole(name + ".weight", unit, {width}, Init::kOnes));
  if (kind == nn::NormKind::kLayer) table.push_back(whole(name + ".bias", unit, {width}, Init::kZeros));
}

void add_linear(ParameterTable& table, const std::string& name, uint32_t unit, int64_t out, int64_t in,
                double deviation, bool bias) {
  table.push_back(linear_map(whole(name + ".weight", unit, {out, in}, Init::kNormal, deviation)));
  if (bias) table.push_back(whole(name + ".bias", unit, {out}, Init::kZeros));
}

void add_merger(ParameterTable& table, const MergerConfig& config, uint32_t unit, const MergerNames& names) {
  add_norm(table, names.norm, unit, config.norm_patches ? config.width : config.folded(), config.norm);
  add_linear(table, names.up, unit, config.inner, config.folded(), config.deviation);
  add_linear(table, names.down, unit, config.out, config.inner, config.deviation);
}

Merger Merger::take(const MergerConfig& config, Binding& binding) {
  Merger merger{config, binding.take_norm(config.norm, config.norm_eps), {}, {}};
  merger.up = binding.take_linear(true);
  merger.down = binding.take_linear(true);
  return merger;
}

at::Tensor Merger::operator()(const at::Tensor& hidden) const {
  const int64_t fold = config.norm_patches ? config.merge * config.merge : 1;
  const at::Tensor rows = config.norm_patches ? hidden : hidden.view({-1, config.folded()});
  return nn::activate_linear(nn::norm_linear(rows, norm, up, fold), nn::Activation::kGelu, down);
}

}  // namespace lf::components
