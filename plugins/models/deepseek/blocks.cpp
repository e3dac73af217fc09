#include "deepseek/blocks.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "deepseek/processor/features.h"
#include "family/batch_columns.h"
#include "family/stage_blocks.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

using components::LatentDecoderBatch;
using components::LatentDecoderConfig;
using components::LatentDecoderResult;

// Counts over the whole step where the host tells them, else over this micro-batch.
components::LossShares shares_of(const lf_batch& batch, const LatentDecoderBatch& made) {
  const lf_batch* given = &batch;
  double supervised = 0, rows = 0, next = 0;
  if (LF_HAS(given, totals) && batch.totals != nullptr) {
    if (batch.n_totals != std::size(kFeatures))
      throw sdk::Failure(LF_E_INVALID, fmt::format("totals: expected {} numbers, one a feature, got {}",
                                                   std::size(kFeatures), batch.n_totals));
    rows = batch.totals[kRows];
    supervised = batch.totals[kLossWeight];
    next = batch.totals[kMtpWeight];
  } else {
    rows = static_cast<double>(made.ids.size(0));
    supervised = static_cast<double>((made.targets >= 0).sum().item<int64_t>());
    next = static_cast<double>(components::next_target_count(made));
  }
  return {next > 0 ? supervised / next : 0, rows > 0 ? supervised / rows : 0};
}

std::vector<at::Tensor> outputs_of(const LatentDecoderConfig& config, const LatentDecoderBatch& batch) {
  const LatentDecoderResult& result = *batch.result;
  std::vector<at::Tensor> outputs = {result.logits, result.token_loss.unsqueeze(1)};
  if (config.trains_mtp) {
    outputs.push_back(result.mtp_logits);
    outputs.push_back(result.mtp_token_loss.unsqueeze(1));
  }
  for (const components::RouterOutput& router : *batch.routers) {
    if (!router.expert.defined()) continue;
    outputs.push_back(router.expert.to(at::kFloat));
    outputs.push_back(router.weight.to(at::kFloat));
  }
  for (const nn::Selection& selection : *batch.selections) {
    if (!selection.scores.defined()) continue;
    outputs.push_back(selection.scores.to(at::kFloat));
    outputs.push_back(selection.selected.to(at::kFloat));
  }
  return outputs;
}

class DecoderBlocks : public family::StageBlocks<LatentDecoderConfig, components::LatentDecoderStage> {
 public:
  using StageBlocks::StageBlocks;

  family::Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    auto made = std::make_shared<LatentDecoderBatch>(components::latent_decoder_batch(
        config(), family::moved(family::needed(batch, "input_ids", at::kLong, 1), device()),
        family::moved(family::needed(batch, "targets", at::kLong, 1), device()),
        {family::values(family::needed(batch, "segment_starts", at::kLong, 1))}));
    made->outputs = (batch.flags & LF_BATCH_OUTPUTS) != 0;
    const lf_batch* given = &batch;
    if (LF_HAS(given, loss_scale) && batch.loss_scale != 0) made->gradient_scale = batch.loss_scale;
    made->shares = shares_of(batch, *made);
    return {stage().steps(made, recompute), [this, made]() -> family::StepResult {
              const LatentDecoderResult& result = *made->result;
              family::StepResult out;
              out.loss_sum = result.loss_sum;
              out.loss_weight = static_cast<double>(result.loss_weight);
              // The host divides these, too, by the supervised rows.
              size_t next = 0;
              out.aux[next++] = result.token_sum;
              if (config().trains_mtp) out.aux[next++] = result.mtp_sum * made->shares.mtp;
              if (config().learns_index()) out.aux[next++] = result.divergence_sum * made->shares.rows;
              if (config().balance_weight > 0) out.aux[next++] = result.balance_sum;
              if (made->outputs) out.outputs = outputs_of(config(), *made);
              return out;
            }};
  }
};

}  // namespace

family::ModelSpec model_spec(const LatentDecoderConfig& config) {
  family::ModelSpec spec;
  family::ComponentSpec& language = spec.components.emplace_back();
  language.name = "language";
  language.units = config.n_units();
  language.parameters = components::parameter_table(config);
  for (const std::string_view name : kFeatures) language.features.emplace_back(name);
  language.boundary = {{"hidden", config.width}, {"mtp", config.width}, {"losses", 2, LF_ROWS_SAMPLE, LF_DTYPE_F32}};
  const auto output = [&](std::string name, int64_t columns) {
    spec.outputs.push_back({std::move(name), columns, LF_ROWS_TOKEN, LF_DTYPE_F32});
  };
  output("logits", config.vocabulary);
  output("token_loss", 1);
  if (config.trains_mtp) {
    output("mtp_logits", config.vocabulary);
    output("mtp_token_loss", 1);
  }
  for (int64_t layer = 0; layer < config.layers + (config.trains_mtp ? 1 : 0); ++layer) {
    if (!config.is_sparse(layer)) continue;
    output(fmt::format("router.{}.experts", layer), config.routing.top_k);
    output(fmt::format("router.{}.weights", layer), config.routing.top_k);
  }
  for (int64_t layer = 0; config.uses_index() && layer < config.layers + (config.trains_mtp ? 1 : 0); ++layer) {
    output(fmt::format("indexer.{}.scores", layer), 0);
    output(fmt::format("indexer.{}.selected", layer), 0);
  }
  spec.aux_names = {"ce_loss"};
  if (config.trains_mtp) spec.aux_names.emplace_back("mtp_loss");
  if (config.learns_index()) spec.aux_names.emplace_back("indexer_kl");
  if (config.balance_weight > 0) spec.aux_names.emplace_back("balance_loss");
  return spec;
}

std::unique_ptr<family::Blocks> decoder_blocks(const LatentDecoderConfig& config,
                                               const family::BlocksRequest& request) {
  return std::make_unique<DecoderBlocks>(config, request);
}

}  // namespace lf::deepseek
