#include "family/qwen_tower_blocks.h"

#include <utility>

#include <ATen/ATen.h>

#include "family/batch_columns.h"
#include "family/stage_blocks.h"

namespace lf::family {
namespace {

class QwenTowerBlocks : public StageBlocks<components::VisionTowerConfig, components::VisionStage> {
 public:
  using StageBlocks::StageBlocks;

  Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const std::vector<int64_t> numbers = values(needed(batch, "grid_thw", at::kLong, 2));
    std::vector<components::PatchGrid> grids;
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) grids.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
    const at::Tensor pixels = begins() ? needed(batch, "pixel_values", at::kFloat, 2) : at::Tensor();
    auto made = std::make_shared<components::VisionBatch>(components::vision_batch(config(), grids, pixels, options()));
    return {stage().steps(std::move(made), recompute), {}};
  }
};

}  // namespace

ComponentSpec qwen_tower_component(const components::VisionTowerConfig& config) { return tower_component(config); }

std::unique_ptr<Blocks> qwen_tower_blocks(const components::VisionTowerConfig& config, const BlocksRequest& request) {
  return std::make_unique<QwenTowerBlocks>(config, request);
}

}  // namespace lf::family
