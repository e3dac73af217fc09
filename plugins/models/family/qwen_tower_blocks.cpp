#include "family/qwen_tower_blocks.h"

#include <utility>

#include <ATen/ATen.h>

#include "family/batch_columns.h"

namespace lf::family {
namespace {

class QwenTowerBlocks : public Blocks {
 public:
  QwenTowerBlocks(const components::VisionTowerConfig& config, const BlocksRequest& request)
      : config_(config),
        begins_(request.first_unit == 0),
        options_(at::TensorOptions().dtype(request.dtype).device(request.device)),
        stage_(config, request.first_unit, request.n_units, nn::ParallelContext{}) {}

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters) override { stage_.bind(unit, std::move(parameters)); }

  Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const std::vector<int64_t> numbers = values(needed(batch, "grid_thw", at::kLong, 2));
    std::vector<components::PatchGrid> grids;
    for (size_t i = 0; i + 2 < numbers.size(); i += 3) grids.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
    const at::Tensor pixels = begins_ ? needed(batch, "pixel_values", at::kFloat, 2) : at::Tensor();
    auto made = std::make_shared<components::VisionBatch>(components::vision_batch(config_, grids, pixels, options_));
    return {stage_.steps(std::move(made), recompute), {}};
  }

 private:
  components::VisionTowerConfig config_;
  bool begins_;
  at::TensorOptions options_;
  components::VisionStage stage_;
};

}  // namespace

ComponentSpec qwen_tower_component(const components::VisionTowerConfig& config) {
  ComponentSpec spec;
  spec.name = "vision";
  spec.units = config.n_units();
  spec.parameters = components::parameter_table(config);
  spec.features = {"rows", "frame_pairs", "window_pairs"};
  spec.boundary = {{"hidden", config.width}};
  spec.row_quantum = config.merge * config.merge;
  return spec;
}

std::unique_ptr<Blocks> qwen_tower_blocks(const components::VisionTowerConfig& config, const BlocksRequest& request) {
  return std::make_unique<QwenTowerBlocks>(config, request);
}

}  // namespace lf::family
