#include "internvl/family.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "family/language_options.h"
#include "lf/plugin_sdk/guard.hpp"
#include "media/tiles.h"

namespace lf::internvl {
namespace {

components::InternVitConfig vision_tower(const InternVlConfig& config) {
  const VisionConfig& v = config.vision;
  const bool original = config.layout == Layout::kOriginal;
  components::InternVitConfig tower;
  tower.depth = v.num_hidden_layers;
  tower.width = v.hidden_size;
  tower.heads = v.num_attention_heads;
  tower.intermediate = v.intermediate_size;
  tower.out_width = config.text.hidden_size;
  tower.channels = v.num_channels;
  tower.patch = v.patch_size;
  tower.side = v.image_size / v.patch_size;
  tower.tile_side = config.tile_size / v.patch_size;
  tower.merge = config.merge;
  tower.norm = v.rms_norm ? nn::NormKind::kRms : nn::NormKind::kLayer;
  tower.norm_eps = v.layer_norm_eps;
  tower.qkv_bias = v.qkv_bias;
  tower.query_key_norms = v.query_key_norms;
  tower.layer_scale = v.layer_scale;
  tower.deviation = v.initializer_range;
  tower.naming = original ? components::InternVitNaming::kOriginal : components::InternVitNaming::kTransformers;
  tower.prefix = original ? "vision_model." : "vision_tower.";
  tower.projector = original ? "mlp1." : "multi_modal_projector.";
  return tower;
}

components::LanguageDecoderConfig language_decoder(const InternVlConfig& config, const Options& options) {
  components::LanguageDecoderConfig decoder = family::language_decoder(config.text, options.router_aux_loss);
  const bool internlm = config.layout == Layout::kOriginal && config.text_type == "internlm2";
  decoder.naming = internlm ? components::DecoderNaming::kInternLm2 : components::DecoderNaming::kTransformers;
  decoder.prefix = "language_model.model.";
  decoder.head_name = internlm ? "language_model.output.weight" : "language_model.lm_head.weight";
  decoder.tied = config.tie_word_embeddings;
  decoder.experts.one_by_one = true;
  return decoder;
}

}  // namespace

Options parse_options(const std::string& options_json, const InternVlConfig& config, family::Findings& findings) {
  const nlohmann::json root = nlohmann::json::parse(options_json);
  family::JsonFields fields(root, "model.options", &findings);
  Options options;
  options.router_aux_loss = family::read_router_aux_loss(fields, config.text.num_experts > 0);
  const std::string weighting = fields.text("loss_weighting", "token");
  if (weighting == "sample") {
    options.loss_weighting = LossWeighting::kSample;
  } else if (weighting == "square") {
    options.loss_weighting = LossWeighting::kSquare;
  } else if (weighting != "token") {
    fields.refuse("loss_weighting", "\"token\", \"sample\" or \"square\"");
  }
  options.min_tiles = fields.within("min_tiles", 0, media::kMostTiles, 0);
  options.max_tiles = fields.within("max_tiles", 0, media::kMostTiles, 0);
  options.share_tiles = fields.flag("share_tiles", false);
  fields.refuse_unread(
      "internvl has no such option; it has loss_weighting, max_tiles, min_tiles, router_aux_loss and share_tiles");
  return options;
}

InternVl compose(InternVlConfig config, const Options& options) {
  InternVl model;
  model.vision = vision_tower(config);
  model.language = language_decoder(config, options);
  model.edges = {
      {"visual", kVision, kLanguage, static_cast<uint32_t>(model.vision.depth + 1), 0, config.text.hidden_size}};
  model.config = std::move(config);
  return model;
}

}  // namespace lf::internvl
