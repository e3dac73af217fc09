#include "diffusion/config.h"

#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

using family::JsonFields;
using nlohmann::json;

constexpr const char* kNotBuilt = "not built into diffusion";

void ignore_bookkeeping(JsonFields& fields) {
  fields.ignore({"_class_name", "_diffusers_version", "_name_or_path", "dtype", "torch_dtype"});
}

constexpr int64_t kMostPatch = 1024;  // of latents, a side

void read_sections(JsonFields& fields, DiffusionConfig& config) {
  config.rotary_sections =
      fields.integers("axes_dims_rope", fields.usual("axes_dims_rope", std::vector<int64_t>{16, 56, 56}));
  int64_t total = 0;
  for (const int64_t section : config.rotary_sections) {
    if (section <= 0 || section % 2 != 0) fields.refuse("axes_dims_rope", "even numbers above 0");
    total += section;
  }
  if (config.rotary_sections.size() != 3 || total != config.head_size)
    fields.refuse("axes_dims_rope",
                  fmt::format("three numbers that add up to attention_head_dim, {}", config.head_size),
                  {"attention_head_dim"});
}

// As many as are stated, perhaps none.
int64_t layers_or_none(JsonFields& fields, const char* name) {
  if (!fields.has(name))
    fields.refuse(name, fmt::format("an integer in [0, {}], as sizes must be stated", JsonFields::kMostLayers));
  return fields.within(name, 0, JsonFields::kMostLayers, 0);
}

DiffusionConfig read_flux(JsonFields& fields) {
  DiffusionConfig config;
  config.architecture = Architecture::kFlux;
  config.patch = fields.positive("patch_size", fields.usual("patch_size", int64_t{1}), kMostPatch);
  config.in_channels = fields.size("in_channels");
  config.out_channels = fields.positive("out_channels", config.in_channels);
  config.layers = layers_or_none(fields, "num_layers");
  config.single_layers = layers_or_none(fields, "num_single_layers");
  config.head_size = fields.size("attention_head_dim");
  config.heads = fields.size("num_attention_heads");
  fields.together("attention_head_dim", config.head_size, "num_attention_heads", config.heads);
  config.text_columns = fields.size("joint_attention_dim");
  config.pooled_columns = fields.size("pooled_projection_dim");
  config.guidance = fields.flag("guidance_embeds", fields.usual("guidance_embeds", false));
  read_sections(fields, config);
  if (config.patch * config.patch * config.out_channels != config.in_channels)
    fields.refuse("out_channels",
                  fmt::format("patch_size² · out_channels = in_channels, {}: what is predicted has the latents' shape",
                              config.in_channels),
                  {"patch_size", "in_channels"});
  return config;
}

DiffusionConfig read_qwen_image(JsonFields& fields) {
  DiffusionConfig config;
  config.architecture = Architecture::kQwenImage;
  config.patch = fields.size("patch_size", kMostPatch);
  config.in_channels = fields.size("in_channels");
  config.out_channels = fields.size("out_channels");
  config.layers = fields.size("num_layers", JsonFields::kMostLayers);
  config.head_size = fields.size("attention_head_dim");
  config.heads = fields.size("num_attention_heads");
  fields.together("attention_head_dim", config.head_size, "num_attention_heads", config.heads);
  config.text_columns = fields.size("joint_attention_dim");
  config.clean_conditions = fields.flag("zero_cond_t", false);
  fields.only("guidance_embeds", {false}, kNotBuilt);
  fields.only("use_additional_t_cond", {false}, kNotBuilt);
  fields.only("use_layer3d_rope", {false}, kNotBuilt);
  fields.ignore({"pooled_projection_dim"});
  read_sections(fields, config);
  if (config.patch * config.patch * config.out_channels != config.in_channels)
    fields.refuse("out_channels",
                  fmt::format("patch_size² · out_channels = in_channels, {}: what is predicted has the latents' shape",
                              config.in_channels),
                  {"patch_size", "in_channels"});
  return config;
}

void check_wan(JsonFields& fields, const DiffusionConfig& config, const char* in_name, const char* head_name) {
  if (config.patch_sizes.size() != 3) fields.refuse("patch_size", "frames, rows and columns");
  for (const int64_t side : config.patch_sizes)
    if (side < 1 || side > kMostPatch) fields.refuse("patch_size", fmt::format("numbers in [1, {}]", kMostPatch));
  if (config.head_size % 2 != 0 || config.head_size < 6)
    fields.complain(
        head_name,
        fmt::format("{}: expected heads of an even size of at least 6, got {}", fields.place(), config.head_size),
        {head_name, "num_heads"});
  if (config.in_channels < config.out_channels)
    fields.refuse(in_name, fmt::format("at least the {} channels that go out", config.out_channels),
                  {"out_channels", "out_dim"});
}

DiffusionConfig read_wan(JsonFields& fields) {
  DiffusionConfig config;
  config.architecture = Architecture::kWan;
  config.patch_sizes = fields.integers("patch_size", fields.usual("patch_size", std::vector<int64_t>{1, 2, 2}));
  config.heads = fields.size("num_attention_heads");
  config.head_size = fields.size("attention_head_dim");
  fields.together("attention_head_dim", config.head_size, "num_attention_heads", config.heads);
  config.in_channels = fields.size("in_channels");
  config.out_channels = fields.positive("out_channels", config.in_channels);
  config.text_columns = fields.size("text_dim");
  config.time_columns = fields.size("freq_dim");
  config.inner = fields.size("ffn_dim");
  config.layers = fields.size("num_layers", JsonFields::kMostLayers);
  config.cross_norm = fields.flag("cross_attn_norm", fields.usual("cross_attn_norm", true));
  config.eps = fields.positive_number("eps", fields.usual("eps", 1e-6));
  fields.only("qk_norm", {"rms_norm_across_heads"}, kNotBuilt);
  for (const char* name : {"image_dim", "added_kv_proj_dim", "pos_embed_seq_len"})
    fields.only(name, {}, "the CLIP branch of Wan 2.1's image-to-video is not built into diffusion");
  fields.ignore({"rope_max_seq_len"});
  check_wan(fields, config, "in_channels", "attention_head_dim");
  return config;
}

DiffusionConfig read_wan_original(JsonFields& fields) {
  DiffusionConfig config;
  config.architecture = Architecture::kWan;
  config.original_names = true;
  const std::string type = fields.text("model_type", "t2v");
  if (type != "t2v" && type != "i2v" && type != "ti2v")
    fields.refuse("model_type", "\"t2v\", \"i2v\" or \"ti2v\" (others have parts that are not built into diffusion)");
  config.patch_sizes = fields.integers("patch_size", fields.usual("patch_size", std::vector<int64_t>{1, 2, 2}));
  const int64_t width = fields.size("dim");
  config.heads = fields.size("num_heads");
  if (width % config.heads != 0)
    fields.refuse("dim", fmt::format("a multiple of num_heads, {}", config.heads), {"num_heads"});
  config.head_size = width / config.heads;
  config.in_channels = fields.size("in_dim");
  config.out_channels = fields.size("out_dim");
  config.text_columns = fields.positive("text_dim", fields.usual("text_dim", int64_t{4096}));
  config.time_columns = fields.size("freq_dim");
  config.inner = fields.size("ffn_dim");
  config.layers = fields.size("num_layers", JsonFields::kMostLayers);
  config.cross_norm = fields.flag("cross_attn_norm", fields.usual("cross_attn_norm", true));
  config.eps = fields.positive_number("eps", fields.usual("eps", 1e-6));
  fields.only("qk_norm", {true}, kNotBuilt);
  fields.only("window_size", {json::array({-1, -1})}, kNotBuilt);
  fields.ignore({"text_len"});
  check_wan(fields, config, "in_dim", "dim");
  return config;
}

}  // namespace

int64_t DiffusionConfig::in_columns() const {
  const int64_t patch_values = patch_sizes[0] * patch_sizes[1] * patch_sizes[2];
  return architecture == Architecture::kWan ? in_channels * patch_values : in_channels;
}

int64_t DiffusionConfig::out_columns() const {
  const int64_t patch_values =
      architecture == Architecture::kWan ? patch_sizes[0] * patch_sizes[1] * patch_sizes[2] : patch * patch;
  return out_channels * patch_values;
}

int64_t DiffusionConfig::latent_channels() const {
  if (architecture == Architecture::kWan) return out_channels;
  const std::vector<int64_t> sides = packing();
  return in_channels / (sides[1] * sides[2]);
}

std::vector<int64_t> DiffusionConfig::packing() const {
  if (architecture == Architecture::kWan) return patch_sizes;
  // Flux's own configurations say patch_size 1 and expect 2 x 2 packed by the pipeline.
  const int64_t side = architecture == Architecture::kFlux && in_channels % 4 != 0 ? 1 : 2;
  return {1, side, side};
}

DiffusionConfig parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

DiffusionConfig parse_config(std::string_view config_json, family::Findings& findings) {
  const json root = json::parse(config_json, nullptr, false);
  JsonFields fields(root, "config.json", &findings);
  const std::string name = fields.text("_class_name", "");
  DiffusionConfig config;
  if (name == "FluxTransformer2DModel") {
    config = read_flux(fields);
  } else if (name == "QwenImageTransformer2DModel") {
    config = read_qwen_image(fields);
  } else if (name == "WanTransformer3DModel") {
    config = read_wan(fields);
  } else if (name == "WanModel") {
    config = read_wan_original(fields);
  } else {
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("config.json: _class_name: expected FluxTransformer2DModel, QwenImageTransformer2DModel, "
                    "WanTransformer3DModel or WanModel, got \"{}\"; choose the model family that knows it, or point "
                    "model.path at the transformer's own folder",
                    name));
  }
  ignore_bookkeeping(fields);
  config.unknown_keys = fields.unread_but_off("diffusion");
  return config;
}

}  // namespace lf::diffusion
