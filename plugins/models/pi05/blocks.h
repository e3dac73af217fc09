// The three components as the ABI's blocks, over the columns of columns.h.
#pragma once

#include <memory>

#include "components/action_expert.h"
#include "components/prefix_decoder.h"
#include "components/siglip.h"
#include "family/model.h"
#include "pi05/config.h"

namespace lf::pi05 {

// What the components are made with.
struct Pi05 {
  components::SiglipConfig vision;
  components::PrefixDecoderConfig language;
  components::ActionExpertConfig action;
};

Pi05 compose(const Pi05Config& config, const Naming& naming);
family::ModelSpec model_spec(const Pi05& model, const Pi05Config& config);
std::unique_ptr<family::Blocks> make_blocks(const Pi05& model, const family::BlocksRequest& request);

}  // namespace lf::pi05
