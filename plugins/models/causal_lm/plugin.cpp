// The entry of the plugin, and the family in terms of family/model.h: one component, the decoder.
#include "lf/plugin_sdk/plugin.hpp"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "causal_lm/config.h"
#include "causal_lm/processor/processor.h"
#include "family/cost.h"
#include "family/entry.h"
#include "family/json_fields.h"
#include "family/language_blocks.h"
#include "family/language_options.h"

#define LF_CAUSAL_LM_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"causal_lm\",\"version\":\"" LF_CAUSAL_LM_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

namespace lf::causal_lm {
namespace {

using nlohmann::json;

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

components::BalanceLoss read_options(const json& request, const CausalLmConfig& config, family::Findings& findings) {
  const json table = request.value("options", json::object());
  const json options = table.value("options", json::object());
  family::JsonFields fields(options, "model.options", &findings);
  const components::BalanceLoss balance = family::read_router_aux_loss(fields, config.text.num_experts > 0);
  fields.refuse_unread("causal_lm has no such option; it has router_aux_loss");
  return balance;
}

class CausalLm : public family::Model {
 public:
  CausalLm(CausalLmConfig config, components::BalanceLoss balance, const json& request)
      : config_(std::move(config)),
        decoder_(family::language_decoder(config_.text, balance)),
        processor_(config_, request) {
    decoder_.takes_rows = false;
    decoder_.prefix = "model.";
    decoder_.head_name = "lm_head.weight";
    decoder_.tied = config_.tie_word_embeddings;
    decoder_.experts.one_by_one = true;
    spec_.components = {family::language_component(decoder_)};
    spec_.outputs = family::language_outputs(decoder_);
    spec_.aux_names = family::language_aux_names(decoder_);
  }

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override { return processor_.features(sample); }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    return processor_.collate(samples);
  }
  lf_cost cost(uint32_t, uint32_t unit, std::span<const double> atoms) const override {
    return family::decoder_work(config_.text, unit, atoms).cost(kCostValueBytes, true);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return family::language_blocks(decoder_, request);
  }

 private:
  CausalLmConfig config_;
  components::LanguageDecoderConfig decoder_;
  Processor processor_;
  family::ModelSpec spec_;
};

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  family::Findings findings;
  CausalLmConfig config = parse_config(request.at("config").dump(), findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to causal_lm and has no effect");
  const components::BalanceLoss balance = read_options(request, config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  return std::make_unique<CausalLm>(std::move(config), balance, request);
}

const lf_model_api kTable = family::model_table<&create>();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "causal_lm", LF_CAUSAL_LM_VERSION);

}  // namespace
}  // namespace lf::causal_lm

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::causal_lm::kPlugin; }
