// A DeepSeek model as a composition: one component, "language".
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "components/latent_decoder.h"
#include "deepseek/config.h"

namespace lf::deepseek {

// [model.options] of the job.
struct Options {
  components::IndexerStage indexer = components::IndexerStage::kSparse;
  double indexer_loss = 1;          // weight of the indexers' divergence
  bool mtp = true;                  // train the prediction module, where the model has one
  double mtp_loss = 0.3;            // its weight
  double balance_loss = 0;          // weight of the sequence-wise balance loss
  double bias_update_rate = 0.001;  // step of the routers' bias against the load
};
Options parse_options(const nlohmann::json& options, const DeepseekConfig& config, family::Findings& findings);

// mtp: whether the model has a prediction module.
components::LatentDecoderConfig compose(const DeepseekConfig& config, bool mtp, const Options& options);

}  // namespace lf::deepseek
