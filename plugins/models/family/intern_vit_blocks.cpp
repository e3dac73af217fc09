#include "family/intern_vit_blocks.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "family/batch_columns.h"
#include "family/stage_blocks.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

class InternVitBlocks : public StageBlocks<components::InternVitConfig, components::InternVitStage> {
 public:
  using StageBlocks::StageBlocks;

  Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const at::Tensor pixels = needed(batch, "pixel_values", at::kFloat, 2);
    if (pixels.size(0) % config().tile_patches() != 0)
      throw sdk::Failure(LF_E_INVALID, fmt::format("pixel_values: expected whole tiles of {} patches, got {} rows",
                                                   config().tile_patches(), pixels.size(0)));
    auto made = std::make_shared<components::InternVitBatch>(components::intern_vit_batch(
        config(), pixels.size(0) / config().tile_patches(), begins() ? pixels : at::Tensor(), options()));
    return {stage().steps(std::move(made), recompute), {}};
  }
};

}  // namespace

ComponentSpec intern_vit_component(const components::InternVitConfig& config) { return tower_component(config); }

std::unique_ptr<Blocks> intern_vit_blocks(const components::InternVitConfig& config, const BlocksRequest& request) {
  return std::make_unique<InternVitBlocks>(config, request);
}

}  // namespace lf::family
