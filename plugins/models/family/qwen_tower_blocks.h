// The Qwen-VL vision tower as a component of a family.
//
// Columns, P patches, n pictures and videos:
//   pixel_values  f32 [P, values of a patch]
//   grid_thw      i64 [n, 3]                  temporal groups, height, width in patches
#pragma once

#include "components/vision_tower.h"
#include "family/model.h"

namespace lf::family {

ComponentSpec qwen_tower_component(const components::VisionTowerConfig& config);
std::unique_ptr<Blocks> qwen_tower_blocks(const components::VisionTowerConfig& config, const BlocksRequest& request);

}  // namespace lf::family
