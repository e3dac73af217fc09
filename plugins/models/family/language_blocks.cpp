#include "family/language_blocks.h"

#include <utility>

#include <ATen/ATen.h>

#include "family/batch_columns.h"
#include "family/stage_blocks.h"

namespace lf::family {
namespace {

class LanguageBlocks : public StageBlocks<components::LanguageDecoderConfig, components::LanguageStage> {
 public:
  using StageBlocks::StageBlocks;

  Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const at::Tensor places = moved(column(batch, "visual_rows", at::kLong, 1), device());
    auto made = std::make_shared<components::DecoderBatch>(
        components::decoder_batch(config(), moved(needed(batch, "input_ids", at::kLong, 1), device()),
                                  moved(needed(batch, "targets", at::kLong, 1), device()),
                                  moved(needed(batch, "position_ids", at::kLong, 2), device()),
                                  {values(needed(batch, "segment_starts", at::kLong, 1))},
                                  places.defined() && places.size(0) > 0 ? places : at::Tensor()));
    made->weights = moved(column(batch, "loss_weights", at::kFloat, 1), device());
    made->outputs = (batch.flags & LF_BATCH_OUTPUTS) != 0;
    const lf_batch* given = &batch;
    if (LF_HAS(given, loss_scale)) made->gradient_scale = batch.loss_scale;
    return {stage().steps(made, recompute), [result = made->result]() -> StepResult {
              StepResult out{result->loss_sum, result->loss_weight, {result->balance_sum}, {}};
              if (result->logits.defined()) out.outputs = {result->logits, result->token_loss.unsqueeze(1)};
              return out;
            }};
  }
};

}  // namespace

ComponentSpec language_component(const components::LanguageDecoderConfig& config) {
  ComponentSpec spec;
  spec.name = "language";
  spec.units = config.n_units();
  spec.parameters = components::parameter_table(config);
  spec.features = {"rows", "loss_weight", "pairs"};
  spec.boundary = {{"hidden", config.width}};
  if (config.carries_statistics())
    spec.boundary.push_back({"routing_statistics", 2 * config.experts.count, LF_ROWS_SAMPLE, LF_DTYPE_F32});
  return spec;
}

std::vector<PortSpec> language_outputs(const components::LanguageDecoderConfig& config) {
  return {{"logits", config.vocabulary, LF_ROWS_TOKEN, LF_DTYPE_F32}, {"token_loss", 1, LF_ROWS_TOKEN, LF_DTYPE_F32}};
}

std::vector<std::string> language_aux_names(const components::LanguageDecoderConfig& config) {
  return config.carries_statistics() ? std::vector<std::string>{"router_aux_loss"} : std::vector<std::string>{};
}

std::unique_ptr<Blocks> language_blocks(const components::LanguageDecoderConfig& config, const BlocksRequest& request) {
  return std::make_unique<LanguageBlocks>(config, request);
}

}  // namespace lf::family
