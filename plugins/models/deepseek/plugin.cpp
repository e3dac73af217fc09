// The entry of the plugin, and the family in terms of family/model.h.
#include "lf/plugin_sdk/plugin.hpp"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "deepseek/blocks.h"
#include "deepseek/family.h"
#include "deepseek/processor/features.h"
#include "deepseek/processor/processor.h"
#include "family/entry.h"

#define LF_DEEPSEEK_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"deepseek\",\"version\":\"" LF_DEEPSEEK_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

namespace lf::deepseek {
namespace {

using nlohmann::json;

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

class DeepseekModel : public family::Model {
 public:
  DeepseekModel(const DeepseekConfig& config, components::LatentDecoderConfig decoder, const json& request)
      : decoder_(std::move(decoder)), processor_(config, request), spec_(model_spec(decoder_)) {}

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override { return {processor_.features(sample)}; }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    return processor_.collate(samples);
  }
  lf_cost cost(uint32_t, uint32_t unit, std::span<const double> atoms) const override {
    return cost_of(decoder_, unit, atoms, kCostValueBytes);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return decoder_blocks(decoder_, request);
  }

 private:
  components::LatentDecoderConfig decoder_;
  Processor processor_;
  family::ModelSpec spec_;
};

// What a recorded reference trains: the losses that it states, and the tensors to which it gives no gradient.
void follow_reference(const json& request, const DeepseekConfig& config, Options& options) {
  if (!request.contains("losses")) return;
  const auto lists = [&](const char* key, const char* name) {
    const json list = request.value(key, json::array());
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  options.mtp = lists("losses", "mtp_loss");
  options.bias_update_rate = 0;
  if (!config.indexer) return;
  options.indexer = !lists("losses", "indexer_kl")           ? components::IndexerStage::kFrozen
                    : lists("no_gradient", "lm_head.weight") ? components::IndexerStage::kWarmup
                                                             : components::IndexerStage::kSparse;
}

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  family::Findings findings;
  const DeepseekConfig config = parse_config(request.at("config").dump(), findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to deepseek and has no effect");
  const json model_table = request.value("options", json::object());
  Options options = parse_options(model_table.value("options", json::object()), config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  follow_reference(request, config, options);
  const json path = request.value("path", json());
  const bool mtp = config.num_nextn_predict_layers
                       ? *config.num_nextn_predict_layers > 0
                       : path.is_string() && holds_prediction_module(path, config.num_hidden_layers);
  return std::make_unique<DeepseekModel>(config, compose(config, mtp, options), request);
}

const lf_model_api kTable = family::model_table<&create>();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "deepseek", LF_DEEPSEEK_VERSION);

}  // namespace
}  // namespace lf::deepseek

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::deepseek::kPlugin; }
