// The entry of the plugin, and the family in terms of family/model.h.
#include "lf/plugin_sdk/plugin.hpp"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "family/entry.h"
#include "family/language_blocks.h"
#include "family/qwen_tower_blocks.h"
#include "qwen_vl/family.h"
#include "qwen_vl/processor/processor.h"

#define LF_QWEN_VL_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"qwen_vl\",\"version\":\"" LF_QWEN_VL_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

class QwenVlModel : public family::Model {
 public:
  QwenVlModel(const lf_host* host, QwenVl model, const json& request)
      : model_(std::move(model)), processor_(host, model_.config, request.dump()) {
    spec_.components = {family::qwen_tower_component(model_.vision), family::language_component(model_.language)};
    spec_.edges = model_.edges;
    spec_.outputs = family::language_outputs(model_.language);
    spec_.aux_names = family::language_aux_names(model_.language);
    if (!is_qwen3(model_.config.family))  // published before the class put its parts into one module
      spec_.class_prefixes = {{"visual.", "model.visual."}, {"model.", "model.language_model."}};
  }

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override {
    Features made = processor_.features(sample);
    return {std::move(made.vision), std::move(made.language)};
  }
  Columns collate(std::span<const lf_sample* const> samples) const override { return processor_.collate(samples); }
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const override {
    return cost_of(model_.config, component, unit, atoms, kCostValueBytes);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return request.component == kVision ? family::qwen_tower_blocks(model_.vision, request)
                                        : family::language_blocks(model_.language, request);
  }

 private:
  QwenVl model_;
  QwenVlProcessor processor_;
  family::ModelSpec spec_;
};

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  family::Findings findings;
  QwenVlConfig config = parse_config(request.at("config").dump(), findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to qwen_vl and has no effect");
  const json model_table = request.value("options", json::object());
  json wanted = model_table.value("options", json::object());
  // A reference that states its balance loss pools it over the batch.
  for (const json& loss : request.value("losses", json::array()))
    if (loss == "aux_loss" && !wanted.contains("router_aux_loss")) wanted["router_aux_loss"] = "batch";
  const Options options = parse_options(wanted.dump(), config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  return std::make_unique<QwenVlModel>(host, compose(std::move(config), options), request);
}

const lf_model_api kTable = family::model_table<&create>();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "qwen_vl", LF_QWEN_VL_VERSION);

}  // namespace
}  // namespace lf::qwen_vl

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::qwen_vl::kPlugin; }
