// InternViT and its projector as a component of a family.
//
// Columns, T tiles of n patches in merge-block order:
//   pixel_values  f32 [T n, values of a patch]
#pragma once

#include "components/intern_vit.h"
#include "family/model.h"

namespace lf::family {

ComponentSpec intern_vit_component(const components::InternVitConfig& config);
std::unique_ptr<Blocks> intern_vit_blocks(const components::InternVitConfig& config, const BlocksRequest& request);

}  // namespace lf::family
