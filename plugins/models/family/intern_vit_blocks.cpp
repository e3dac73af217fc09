#include "family/intern_vit_blocks.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "family/batch_columns.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

class InternVitBlocks : public Blocks {
 public:
  InternVitBlocks(const components::InternVitConfig& config, const BlocksRequest& request)
      : config_(config),
        begins_(request.first_unit == 0),
        options_(at::TensorOptions().dtype(request.dtype).device(request.device)),
        stage_(config, request.first_unit, request.n_units, nn::ParallelContext{}) {}

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters) override { stage_.bind(unit, std::move(parameters)); }

  Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const at::Tensor pixels = needed(batch, "pixel_values", at::kFloat, 2);
    if (pixels.size(0) % config_.tile_patches() != 0)
      throw sdk::Failure(LF_E_INVALID, fmt::format("pixel_values: expected whole tiles of {} patches, got {} rows",
                                                   config_.tile_patches(), pixels.size(0)));
    auto made = std::make_shared<components::InternVitBatch>(components::intern_vit_batch(
        config_, pixels.size(0) / config_.tile_patches(), begins_ ? pixels : at::Tensor(), options_));
    return {stage_.steps(std::move(made), recompute), {}};
  }

 private:
  components::InternVitConfig config_;
  bool begins_;
  at::TensorOptions options_;
  components::InternVitStage stage_;
};

}  // namespace

ComponentSpec intern_vit_component(const components::InternVitConfig& config) {
  ComponentSpec spec;
  spec.name = "vision";
  spec.units = config.n_units();
  spec.parameters = components::parameter_table(config);
  spec.features = {"rows", "frame_pairs", "window_pairs"};
  spec.boundary = {{"hidden", config.width}};
  spec.row_quantum = config.merge * config.merge;
  return spec;
}

std::unique_ptr<Blocks> intern_vit_blocks(const components::InternVitConfig& config, const BlocksRequest& request) {
  return std::make_unique<InternVitBlocks>(config, request);
}

}  // namespace lf::family
