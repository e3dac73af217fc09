// The transformer of a family as blocks of family/model.h: columns to batches, component to steps.
#pragma once

#include <memory>

#include "components/cross_attention_transformer.h"
#include "components/dual_stream_transformer.h"
#include "diffusion/config.h"
#include "family/model.h"

namespace lf::diffusion {

// Of Flux and Qwen-Image; of Wan.
components::DualStreamConfig dual_stream(const DiffusionConfig& config);
components::CrossAttentionConfig cross_attention(const DiffusionConfig& config);

// The one component, "transformer", and its outputs: the prediction, and each sample's mean squared error.
family::ModelSpec model_spec(const DiffusionConfig& config);

std::unique_ptr<family::Blocks> make_blocks(const DiffusionConfig& config, const family::BlocksRequest& request);

}  // namespace lf::diffusion
