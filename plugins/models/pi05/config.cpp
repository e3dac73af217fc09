#include "pi05/config.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::pi05 {
namespace {

using family::JsonFields;
using nlohmann::json;

constexpr const char* kNotBuilt = "not built into pi05";
constexpr uint64_t kLargestHeader = 100 << 20;

const json& object_or_empty(JsonFields& fields, const char* name) {
  static const json kEmpty = json::object();
  const json* found = fields.object(name);
  return found == nullptr ? kEmpty : *found;
}

void refuse_unread(const JsonFields& fields) {
  fields.refuse_unread("pi05 does not know this field; remove it if it changes nothing");
}

// A size that may stand in two places, of which the second is a short name in "sizes": equal where both are given.
// Where it stands in neither, `named` of lerobot's names for sizes must have said it.
struct Sizes {
  JsonFields list;

  void read(JsonFields& fields, const char* name, const char* short_name, int64_t& size, bool named,
            int64_t most = JsonFields::kMostSize) {
    if (!named && !list.has(short_name)) {
      size = fields.size(name, most);
      return;
    }
    size = list.positive(short_name, size, most);
    const int64_t stated = fields.positive(name, size, most);
    if (list.has(short_name) && list.sound({short_name}) && stated != size)
      fields.refuse(name, fmt::format("sizes.{}, {}", short_name, size));
    size = stated;
  }
};

void read_decoder(JsonFields& root, Sizes& sizes, const char* name, const char* width, const char* inner, bool named,
                  DecoderSizes& decoder) {
  JsonFields fields = root.inside(object_or_empty(root, name), fmt::format("config.json: {}", name));
  sizes.read(fields, "width", width, decoder.width, named);
  sizes.read(fields, "mlp_dim", inner, decoder.inner, named);
  if (decoder.width % 2 != 0) fields.refuse("width", "an even number");
  refuse_unread(fields);
}

// False where the size of a patch is not known.
bool read_vision(JsonFields& root, Sizes& sizes, bool named, Pi05Config& c) {
  JsonFields fields = root.inside(object_or_empty(root, "vision"), "config.json: vision");
  sizes.read(fields, "hidden_size", "vis", c.vision_width, named);
  sizes.read(fields, "intermediate_size", "vinter", c.vision_inner, named);
  sizes.read(fields, "num_hidden_layers", "vdepth", c.vision_layers, named, JsonFields::kMostLayers);
  sizes.read(fields, "num_attention_heads", "vheads", c.vision_heads, named);
  sizes.read(fields, "patch_size", "patch", c.patch, named);
  c.vision_eps = fields.positive_number("layer_norm_eps", c.vision_eps);
  fields.only("hidden_act", {"gelu_pytorch_tanh"}, kNotBuilt);
  if (c.vision_width % c.vision_heads != 0)
    fields.refuse("num_attention_heads", fmt::format("a divisor of hidden_size, {}", c.vision_width), {"hidden_size"});
  refuse_unread(fields);
  return fields.sound({"patch_size"}) && sizes.list.sound({"patch"});
}

void read_image_size(JsonFields& fields, Sizes& sizes, bool patch_is_known, Pi05Config& c) {
  if (!sizes.list.has("img") && !fields.has("image_resolution"))
    fields.refuse("image_resolution", "two equal sides, as they must be stated");
  c.image_size = sizes.list.positive("img", c.image_size, 1 << 14);
  const std::vector<int64_t> sides = fields.integers("image_resolution", {c.image_size, c.image_size});
  if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 1 || sides[0] > 1 << 14)
    return fields.refuse("image_resolution", "two equal sides: the tower takes square images");
  if (sizes.list.has("img") && sides[0] != c.image_size)
    fields.refuse("image_resolution", fmt::format("sizes.img, {}", c.image_size));
  c.image_size = sides[0];
  if (patch_is_known && c.image_size % c.patch != 0)
    fields.refuse("image_resolution", fmt::format("a multiple of the patch size, {}", c.patch));
}

// lerobot adds such ones for cameras that never see anything.
std::string empty_camera(int64_t number) { return fmt::format("observation.images.empty_camera_{}", number); }

// "input_features" and "output_features": which cameras there are, in the text's order, and how long an action is.
void read_features(JsonFields& fields, std::string_view text, Pi05Config& c) {
  std::vector<std::string> views;
  if (fields.object("input_features") != nullptr) {
    const auto ordered = nlohmann::ordered_json::parse(text, nullptr, false);
    for (const auto& [name, feature] : ordered.at("input_features").items())
      if (feature.is_object() && feature.value("type", "") == "VISUAL") views.push_back(name);
  }
  const int64_t empty = fields.within("empty_cameras", 0, 64, 0);
  const auto named = std::count_if(views.begin(), views.end(), [](const std::string& name) {
    return name.starts_with("observation.images.empty_camera_");
  });
  std::copy_if(views.begin(), views.end(), std::back_inserter(c.ways.views), [&](const std::string& name) {
    for (int64_t i = 0; i < empty; ++i)
      if (name == empty_camera(i)) return false;
    return true;
  });
  if (!views.empty()) c.views = static_cast<int64_t>(views.size());
  c.views += std::max<int64_t>(empty - named, 0);
  const json* outputs = fields.object("output_features");
  if (outputs == nullptr || !outputs->contains("action")) return;
  JsonFields action = fields.inside(outputs->at("action"), "config.json: output_features.action");
  const std::vector<int64_t> shape = action.integers("shape", {c.action_dim});
  if (!fields.sound({"max_action_dim"})) return;
  if (shape.size() != 1 || shape[0] < 1 || shape[0] > c.action_columns)
    return action.refuse("shape", fmt::format("one number from 1 to max_action_dim, {}", c.action_columns));
  c.action_dim = shape[0];
}

void read_time(JsonFields& fields, Pi05Config& c) {
  c.min_period = fields.positive_number("min_period", fields.usual("min_period", c.min_period));
  c.max_period = fields.positive_number("max_period", fields.usual("max_period", c.max_period));
  if (c.max_period < c.min_period)
    fields.refuse("max_period", fmt::format("at least min_period, {}", c.min_period), {"min_period"});
  const auto usual_number = [&](const char* name, double value) {
    return fields.positive_number(name, fields.usual(name, value));
  };
  c.time_alpha = usual_number("time_sampling_beta_alpha", c.time_alpha);
  c.time_beta = usual_number("time_sampling_beta_beta", c.time_beta);
  if (c.time_alpha != 1 && c.time_beta != 1)
    fields.refuse("time_sampling_beta_beta", "1, or 1 for time_sampling_beta_alpha (others are not built into pi05)",
                  {"time_sampling_beta_alpha"});
  c.time_scale = usual_number("time_sampling_scale", c.time_scale);
  c.time_offset = fields.number("time_sampling_offset", fields.usual("time_sampling_offset", c.time_offset));
  if (c.time_offset < 0 || c.time_offset + c.time_scale > 1 + 1e-9)
    fields.refuse("time_sampling_offset", "at least 0 and, with time_sampling_scale, at most 1: times from 0 to 1",
                  {"time_sampling_scale"});
}

std::optional<std::vector<std::string>> read_names(JsonFields& fields, const json& root, const char* name) {
  fields.ignore({name});
  if (!fields.has(name)) return std::nullopt;
  const json& list = root.at(name);
  if (list.is_array() && std::all_of(list.begin(), list.end(), [](const json& one) { return one.is_string(); }))
    return list.get<std::vector<std::string>>();
  fields.refuse(name, "a list of names");
  return std::nullopt;
}

// How states, actions and pictures are prepared. A kind of feature that the mapping leaves out stays as it is (lerobot
// 0.6.1, normalize_processor.py).
void read_ways(JsonFields& fields, const json& root, robot::ModelWays& ways) {
  if (const json* mapping = fields.object("normalization_mapping")) {
    ways.state_normalization = ways.action_normalization = robot::Normalization::kNone;
    for (const auto& [kind, value] : mapping->items()) {
      const auto mode = value.is_string() ? robot::of_lerobot(value.get<std::string>()) : std::nullopt;
      const auto refuse = [&, &name = kind, &got = value](const std::string& expected) {
        fields.complain(
            "normalization_mapping." + name,
            fmt::format("config.json.normalization_mapping.{}: expected {}, got {}", name, expected, got.dump()));
      };
      if (!mode)
        refuse("IDENTITY, MEAN_STD, MIN_MAX, QUANTILES or QUANTILE10");
      else if (kind == "STATE")
        ways.state_normalization = *mode;
      else if (kind == "ACTION")
        ways.action_normalization = *mode;
      else if (*mode != robot::Normalization::kNone)
        refuse("IDENTITY (others are not built into pi05)");
    }
  }
  if (fields.has("use_relative_actions")) ways.relative_actions = fields.flag("use_relative_actions", false);
  ways.relative_exclude = read_names(fields, root, "relative_exclude_joints");
  ways.action_names = read_names(fields, root, "action_feature_names").value_or(std::vector<std::string>());
}

// What belongs to inference, to lerobot's trainer or to its data: nothing of it changes the model.
void ignore_bookkeeping(JsonFields& fields) {
  fields.ignore({"device",
                 "use_amp",
                 "push_to_hub",
                 "repo_id",
                 "private",
                 "tags",
                 "license",
                 "pretrained_path",
                 "pretrained_revision",
                 "n_action_steps",
                 "num_inference_steps",
                 "rtc_config",
                 "max_state_dim",
                 "gradient_checkpointing",
                 "compile_model",
                 "compile_mode",
                 "optimizer_lr",
                 "optimizer_betas",
                 "optimizer_eps",
                 "optimizer_weight_decay",
                 "optimizer_grad_clip_norm",
                 "scheduler_warmup_steps",
                 "scheduler_decay_steps",
                 "scheduler_decay_lr",
                 "dtype"});
}

}  // namespace

Pi05Config parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

Pi05Config parse_config(std::string_view config_json, family::Findings& findings) {
  const json root = json::parse(config_json, nullptr, false);
  JsonFields fields(root, "config.json", &findings);
  if (const std::string type = fields.text("type", ""); type != "pi05")
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("config.json.type: expected \"pi05\", got \"{}\"; choose the model family that knows this config",
                    type));
  Pi05Config c;
  fields.only("paligemma_variant", {"gemma_2b"}, kNotBuilt);
  const bool vlm_named = fields.has("paligemma_variant"), expert_named = fields.has("action_expert_variant");
  const std::string expert = fields.text("action_expert_variant", "gemma_300m");
  if (expert != "gemma_300m" && expert != "gemma_2b")
    fields.refuse("action_expert_variant", "\"gemma_300m\" or \"gemma_2b\"");
  if (expert == "gemma_2b") c.expert = c.vlm;
  fields.only("n_obs_steps", {1}, kNotBuilt);

  Sizes sizes{fields.inside(object_or_empty(fields, "sizes"), "config.json: sizes")};
  read_decoder(fields, sizes, "vlm", "W", "mlp", vlm_named, c.vlm);
  read_decoder(fields, sizes, "action_expert", "We", "mlpe", expert_named, c.expert);
  sizes.read(fields, "depth", "depth", c.layers, vlm_named, JsonFields::kMostLayers);
  c.heads = vlm_named ? fields.positive("num_heads", c.heads) : fields.size("num_heads");
  sizes.read(fields, "num_kv_heads", "kv", c.kv_heads, vlm_named);
  sizes.read(fields, "head_dim", "hd", c.head_size, vlm_named);
  sizes.read(fields, "vocab_size", "V", c.vocabulary, vlm_named);
  if (c.heads % c.kv_heads != 0)
    fields.refuse("num_kv_heads", fmt::format("a divisor of num_heads, {}", c.heads), {"num_heads"});
  if (c.head_size % 2 != 0) fields.refuse("head_dim", "an even number");
  c.rope_theta = fields.positive_number("rope_theta", c.rope_theta);
  c.norm_eps = fields.positive_number("rms_norm_eps", c.norm_eps);
  read_image_size(fields, sizes, read_vision(fields, sizes, vlm_named, c), c);

  sizes.read(fields, "chunk_size", "chunk", c.horizon, false, 1 << 16);
  sizes.read(fields, "max_action_dim", "adim", c.action_columns, false, 1 << 16);
  c.action_dim = c.action_columns;
  read_features(fields, config_json, c);
  read_ways(fields, root, c.ways);
  if (fields.sound({"max_action_dim"})) sizes.read(fields, "action_dim", "real", c.action_dim, true, c.action_columns);
  c.max_prompt_tokens =
      fields.positive("tokenizer_max_length", fields.usual("tokenizer_max_length", c.max_prompt_tokens), 1 << 20);
  read_time(fields, c);
  c.prefix_frozen = fields.flag("train_expert_only", false);
  c.tower_frozen = fields.flag("freeze_vision_encoder", false) || c.prefix_frozen;
  if (c.prefix_frozen)
    c.remarks.push_back("config.json.train_expert_only: tower and prefix are frozen");
  else if (c.tower_frozen)
    c.remarks.push_back("config.json.freeze_vision_encoder: the tower is frozen");
  fields.only("use_peft", {false}, "the folder of adapters beside a model; open the model, with lora.path for these");
  refuse_unread(sizes.list);
  ignore_bookkeeping(fields);
  for (const std::string& name : fields.unread_but_off("pi05"))
    c.remarks.push_back(name + " is not known to pi05 and has no effect");
  return c;
}

namespace {

// The names of a checkpoint's tensors, as an object that has them for keys; null where there is none. Whoever reads the
// weights says what is wrong with a file.
json tensor_names(const std::filesystem::path& folder) {
  if (std::ifstream in(folder / "model.safetensors.index.json"); in) {
    const json index = json::parse(in, nullptr, false);
    return index.is_object() ? index.value("weight_map", json()) : json();
  }
  std::ifstream in(folder / "model.safetensors", std::ios::binary);
  char size_bytes[8];
  if (!in.read(size_bytes, sizeof size_bytes)) return {};
  uint64_t size = 0;
  std::memcpy(&size, size_bytes, sizeof size);
  if (size > kLargestHeader) return {};
  std::string header(size, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(size))) return {};
  return json::parse(header, nullptr, false);
}

}  // namespace

Naming naming_of(const std::string& folder) {
  Naming naming;
  const json names = tensor_names(folder);
  if (!names.is_object()) return naming;
  const std::string model = "paligemma_with_expert.paligemma.";
  if (names.contains("model.action_in_proj.weight")) naming.outer = "model.";
  const auto has = [&](const std::string& name) { return names.contains(naming.outer + name); };
  if (has(model + "model.vision_tower.post_layernorm.weight")) naming.tower = "vision_tower.";
  const std::string embedding = "model.language_model.embed_tokens.weight";
  if (has(model + embedding)) {
    naming.spare_head = has(model + naming.table);
    naming.table = embedding;
  }
  naming.expert_head = has("paligemma_with_expert.gemma_expert.lm_head.weight");
  return naming;
}

}  // namespace lf::pi05
