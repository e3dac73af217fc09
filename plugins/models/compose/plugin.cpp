// The entry of the plugin, and the composition in terms of family/model.h: a tower and its projector as its own family
// runs them, in front of any decoder.
#include "lf/plugin_sdk/plugin.hpp"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compose/config.h"
#include "family/entry.h"
#include "family/intern_vit_blocks.h"
#include "family/language_blocks.h"
#include "family/language_options.h"
#include "family/qwen_tower_blocks.h"
#include "internvl/family.h"
#include "internvl/processor/cost.h"
#include "internvl/processor/processor.h"
#include "qwen_vl/family.h"
#include "qwen_vl/processor/processor.h"

#define LF_COMPOSE_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"compose\",\"version\":\"" LF_COMPOSE_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

namespace lf::compose {
namespace {

using nlohmann::json;

enum ComponentIndex : uint32_t { kVision = 0, kLanguage = 1 };

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

components::LanguageDecoderConfig decoder_of(const ComposeConfig& config, components::BalanceLoss balance) {
  components::LanguageDecoderConfig decoder = family::language_decoder(config.text, balance);
  decoder.tied = config.tied;
  decoder.prefix = "language.";
  decoder.head_name = "language.lm_head.weight";
  decoder.experts.one_by_one = true;
  return decoder;
}

// Everything but the tower.
class ComposedModel : public family::Model {
 public:
  ComposedModel(components::LanguageDecoderConfig decoder, family::ComponentSpec vision,
                std::vector<family::EdgeSpec> edges)
      : decoder_(std::move(decoder)) {
    spec_.components = {std::move(vision), family::language_component(decoder_)};
    spec_.edges = std::move(edges);
    spec_.outputs = family::language_outputs(decoder_);
    spec_.aux_names = family::language_aux_names(decoder_);
  }
  const family::ModelSpec& spec() const override { return spec_; }

 protected:
  components::LanguageDecoderConfig decoder_;
  family::ModelSpec spec_;
};

class WithInternVit : public ComposedModel {
 public:
  WithInternVit(const lf_host* host, const ComposeConfig& config, components::InternVitConfig tower,
                components::LanguageDecoderConfig decoder, const internvl::Options& options, const json& request)
      : ComposedModel(std::move(decoder), family::intern_vit_component(tower),
                      {{"visual", kVision, kLanguage, static_cast<uint32_t>(tower.depth + 1), 0, tower.out_width}}),
        config_(*config.intern),
        tower_(std::move(tower)),
        processor_(host, config_, {options.min_tiles, options.max_tiles, options.share_tiles, options.loss_weighting},
                   request) {
    spec_.components[kLanguage].features.push_back("supervised");
  }
  family::Features features(const lf_sample& sample) const override { return processor_.features(sample); }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    return processor_.collate(samples);
  }
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const override {
    return component == kVision ? internvl::vision_cost(config_, unit, atoms)
                                : internvl::language_cost(config_, unit, atoms);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return request.component == kVision ? family::intern_vit_blocks(tower_, request)
                                        : family::language_blocks(decoder_, request);
  }

 private:
  internvl::InternVlConfig config_;
  components::InternVitConfig tower_;
  internvl::InternVlProcessor processor_;
};

class WithQwenTower : public ComposedModel {
 public:
  WithQwenTower(const lf_host* host, const ComposeConfig& config, components::VisionTowerConfig tower,
                components::LanguageDecoderConfig decoder, std::vector<family::EdgeSpec> edges, const json& request)
      : ComposedModel(std::move(decoder), family::qwen_tower_component(tower), std::move(edges)),
        config_(*config.qwen),
        tower_(std::move(tower)),
        processor_(host, config_, request.dump()) {}
  family::Features features(const lf_sample& sample) const override {
    qwen_vl::Features made = processor_.features(sample);
    return {std::move(made.vision), std::move(made.language)};
  }
  family::Columns collate(std::span<const lf_sample* const> samples) const override {
    return processor_.collate(samples);
  }
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const override {
    return qwen_vl::cost_of(config_, component, unit, atoms, kCostValueBytes);
  }
  std::unique_ptr<family::Blocks> blocks(const family::BlocksRequest& request) const override {
    return request.component == kVision ? family::qwen_tower_blocks(tower_, request)
                                        : family::language_blocks(decoder_, request);
  }

 private:
  qwen_vl::QwenVlConfig config_;
  components::VisionTowerConfig tower_;
  qwen_vl::QwenVlProcessor processor_;
};

// What is left of [model.options]: settings of training. The components' tables must be those of config.json.
json training_options(const json& config, json options, family::Findings& findings) {
  for (const char* name : {"vision", "projector", "decoder", "tokens"}) {
    if (options.contains(name) && config.value(name, json()) != options[name])
      findings.add(fmt::format("model.options.{}", name),
                   fmt::format("model.options.{0}: differs from \"{0}\" of the model's config.json; remove one", name));
    options.erase(name);
  }
  return options;
}

std::unique_ptr<family::Model> create(const lf_host* host, const json& request) {
  const json& root = request.at("config");
  if (root.value("model_type", "") != "compose")
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("config.json: model_type: expected compose, got {}; choose the family that knows it",
                                   root.value("model_type", json()).dump()));
  family::Findings findings;
  const ComposeConfig config = parse_config(root, findings);
  for (const std::string& key : config.unknown_keys)
    findings.remark(key + " is not known to compose and has no effect");
  json table = request.value("options", json::object());
  const json options = training_options(root, table.value("options", json::object()), findings);
  // Which options there are is the tower's to say.
  if (!config.intern && !config.qwen) findings.refuse_if_any();
  if (config.intern) {
    const internvl::Options parsed = internvl::parse_options(options.dump(), *config.intern, findings);
    findings.refuse_if_any();
    findings.tell(host);
    components::InternVitConfig tower = internvl::compose(*config.intern, parsed).vision;
    tower.prefix = "vision.";
    tower.projector = "projector.";
    tower.projector_inner = config.projector.inner;
    tower.projector_norm_patches = config.projector.norm_patches.value_or(false);
    return std::make_unique<WithInternVit>(host, config, std::move(tower), decoder_of(config, parsed.router_aux_loss),
                                           parsed, request);
  }
  const qwen_vl::Options parsed = qwen_vl::parse_options(options.dump(), *config.qwen, findings);
  findings.refuse_if_any();
  findings.tell(host);
  qwen_vl::QwenVl made = qwen_vl::compose_tower(*config.qwen);
  made.vision.names.prefix = "vision.";
  made.vision.names.merger_prefix = "projector.";
  made.vision.merger_inner = config.projector.inner;
  made.vision.merger_norm_patches = config.projector.norm_patches.value_or(true);
  components::LanguageDecoderConfig decoder = decoder_of(config, parsed.router_aux_loss);
  decoder.deepstack = static_cast<int64_t>(made.vision.deepstack_layers.size());
  return std::make_unique<WithQwenTower>(host, config, std::move(made.vision), std::move(decoder),
                                         std::move(made.edges), request);
}

const lf_model_api kTable = family::model_table<&create>();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "compose", LF_COMPOSE_VERSION);

}  // namespace
}  // namespace lf::compose

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::compose::kPlugin; }
