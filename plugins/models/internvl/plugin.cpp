// The entry of the plugin, and the family in terms of family/model.h.
#include "lf/plugin_sdk/plugin.hpp"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "family/entry.h"
#include "family/intern_vit_blocks.h"
#include "family/language_blocks.h"
#include "internvl/family.h"
#include "internvl/processor/cost.h"
#include "internvl/processor/processor.h"

#define LF_INTERNVL_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"internvl\",\"version\":\"" LF_INTERNVL_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

namespace lf::internvl {
namespace {

using nlohmann::json;

class InternVlModel : public family::Model {
 public:
  InternVlModel(const lf_host* host, InternVl model, const Options& options, const json& request)
      : model_(std::move(model)),
        processor_(host, model_.config,
                   {options.min_tiles, options.max_tiles, options.share_tiles, options.loss_weighting}, request) {
    spec_.components = {family::intern_vit_component(model_.vision), family::language_component(model_.language)};
    spec_.components[kLanguage].features.push_back("supervised");
    spec_.edges = model_.edges;
    spec_.outputs = family::language_outputs(model_.language);
    spec_.aux_names = family::language_aux_names(model_.language);
    if (model_.vision.naming == components::InternVitNaming::kTransformers)
      spec_.class_prefixes = {{"vision_tower.", "model.vision_tower."},
                              {"multi_modal_projector.", "model.multi_modal_projector."},
                              {"language_model.model.", "model.language_model."},
                              {"language_model.lm_head.", "lm_head."}};
  }

  const family::ModelSpec& spec() const override { return spec_; }
  family::Features features(const lf_sample& sample) const override { return processor_.features(sample); }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    return processor_.collate(samples);
  }
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const override {
    return component == kVision ? vision_cost(model_.config, unit, atoms) : language_cost(model_.config, unit, atoms);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return request.component == kVision ? family::intern_vit_blocks(model_.vision, request)
                                        : family::language_blocks(model_.language, request);
  }

 private:
  InternVl model_;
  InternVlProcessor processor_;
  family::ModelSpec spec_;
};

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  family::Findings findings;
  InternVlConfig config = parse_config(request.at("config").dump(), findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to internvl and has no effect");
  const json model_table = request.value("options", json::object());
  const Options options = parse_options(model_table.value("options", json::object()).dump(), config, findings);
  findings.refuse_if_any();
  findings.tell(host);
  return std::make_unique<InternVlModel>(host, compose(std::move(config), options), options, request);
}

const lf_model_api kTable = family::model_table<&create>();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "internvl", LF_INTERNVL_VERSION);

}  // namespace
}  // namespace lf::internvl

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::internvl::kPlugin; }
