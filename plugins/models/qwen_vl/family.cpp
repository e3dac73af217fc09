#include "qwen_vl/family.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "family/language_options.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

components::VisionNames vision_names(Family family) {
  switch (family) {
    case Family::kQwen2Vl:
      return {"visual.", {"mlp.fc1"}, "mlp.fc2", "ln_q", "mlp.0", "mlp.2", "", "", ""};
    case Family::kQwen2_5Vl:
      return {"visual.", {"mlp.gate_proj", "mlp.up_proj"}, "mlp.down_proj", "ln_q", "mlp.0", "mlp.2", "", "", ""};
    case Family::kQwen3Vl:
    case Family::kQwen3VlMoe:
      return {"model.visual.", {"mlp.linear_fc1"}, "mlp.linear_fc2", "norm", "linear_fc1", "linear_fc2",
              "norm",          "linear_fc1",       "linear_fc2"};
  }
  throw sdk::Failure(LF_E_BUG, "unknown Qwen-VL family");
}

components::VisionTowerConfig vision_tower(const QwenVlConfig& config) {
  const VisionConfig& v = config.vision;
  components::VisionTowerConfig tower;
  tower.depth = v.depth;
  tower.width = v.hidden_size;
  tower.heads = v.num_heads;
  tower.intermediate = v.intermediate_size;
  tower.out_width = v.out_hidden_size;
  tower.patch_shape = {v.in_channels, v.temporal_patch_size, v.patch_size, v.patch_size};
  tower.merge = v.spatial_merge_size;
  tower.rope_theta = v.rope_theta;
  tower.deviation = v.initializer_range;
  tower.names = vision_names(config.family);
  switch (config.family) {
    case Family::kQwen2Vl:
      tower.norm = nn::NormKind::kLayer;
      tower.activation = nn::Activation::kQuickGelu;
      break;
    case Family::kQwen2_5Vl:
      tower.norm = nn::NormKind::kRms;
      tower.activation = nn::Activation::kGatedSilu;
      tower.window = v.window_size / v.spatial_merge_size / v.patch_size;
      tower.full_layers = v.fullatt_block_indexes;
      break;
    case Family::kQwen3Vl:
    case Family::kQwen3VlMoe:
      tower.norm = nn::NormKind::kLayer;
      tower.activation = nn::Activation::kGeluTanh;
      tower.patch_bias = true;
      tower.position_side = std::llround(std::sqrt(static_cast<double>(v.num_position_embeddings)));
      tower.deepstack_layers = v.deepstack_visual_indexes;
      break;
  }
  return tower;
}

components::LanguageDecoderConfig language_decoder(const QwenVlConfig& config, const Options& options) {
  const TextConfig& t = config.text;
  const bool q3 = is_qwen3(config.family);
  components::LanguageDecoderConfig decoder = family::language_decoder(t, options.router_aux_loss);
  decoder.rotary = q3 ? nn::interleaved_rotary(t.head_dim, t.rope_theta, t.mrope_section)
                      : nn::chunked_rotary(t.head_dim, t.rope_theta, t.mrope_section);
  decoder.tied = config.tie_word_embeddings;
  decoder.deepstack = static_cast<int64_t>(config.vision.deepstack_visual_indexes.size());
  decoder.prefix = q3 ? "model.language_model." : "model.";
  decoder.head_name = "lm_head.weight";
  return decoder;
}

}  // namespace

Options parse_options(const std::string& options_json, const QwenVlConfig& config, family::Findings& findings) {
  const nlohmann::json root = nlohmann::json::parse(options_json);
  family::JsonFields fields(root, "model.options", &findings);
  Options options;
  options.router_aux_loss = family::read_router_aux_loss(fields, config.text.num_experts > 0);
  fields.refuse_unread("qwen_vl has no such option; it has router_aux_loss");
  return options;
}

QwenVl compose(QwenVlConfig config, const Options& options) {
  QwenVl model = compose_tower(std::move(config));
  model.language = language_decoder(model.config, options);
  return model;
}

QwenVl compose_tower(QwenVlConfig config) {
  QwenVl model;
  model.vision = vision_tower(config);
  const int64_t width = config.text.hidden_size;
  model.edges.push_back({"visual", kVision, kLanguage, static_cast<uint32_t>(config.vision.depth + 1), 0, width});
  for (size_t k = 0; k < config.vision.deepstack_visual_indexes.size(); ++k)
    model.edges.push_back({fmt::format("deepstack.{}", k), kVision, kLanguage,
                           static_cast<uint32_t>(config.vision.deepstack_visual_indexes[k] + 1),
                           static_cast<uint32_t>(k + 1), width});
  model.config = std::move(config);
  return model;
}

}  // namespace lf::qwen_vl
