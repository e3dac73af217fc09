#include "balance_command/cost_option.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

// Parameters of a layer from the sizes that Hugging Face configurations give: attention with grouped keys and values,
// and a gated feed-forward (three matrices), or two matrices in a vision tower; of experts, those that a token sees.
double layer_parameters(const nlohmann::json& config, double width, int matrices, const char* heads_key) {
  const double heads = std::max(1.0, config.value(heads_key, 1.0));
  const double kv_heads = config.value("num_key_value_heads", heads);
  const double experts = config.value("num_experts_per_tok", 0.0);
  const double inner =
      experts > 0 && config.contains("moe_intermediate_size")
          ? config["moe_intermediate_size"].get<double>() * (experts + config.value("n_shared_experts", 0.0))
          : config.value("intermediate_size", 4 * width);
  return 2 * width * width + 2 * width * width * kv_heads / heads + matrices * width * inner;
}

WorkCost cost_of_config(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path))
    fail(Exit::kInputMissing,
         "lfrun balance: --model: {} cannot be read; give the config.json of a Hugging Face model, or its folder",
         path.string());
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object())
    fail(Exit::kBadData, "--model: {}: expected a JSON object, got {}; give a config.json", path.string(),
         json.is_discarded() ? "what is no JSON" : json.type_name());
  const nlohmann::json text = json.value("text_config", json.value("llm_config", json));
  const auto size = [&](const nlohmann::json& config, const char* key) {
    if (!config.contains(key) || !config[key].is_number() || config[key] <= 0)
      fail(Exit::kBadData, "--model: {}: {}: expected a number above 0, got {}; give --cost instead", path.string(),
           key, config.contains(key) ? config[key].dump() : "nothing");
    return config[key].get<double>();
  };
  WorkCost cost;
  cost.decoder.width = size(text, "hidden_size");
  cost.decoder.layers = size(text, "num_hidden_layers");
  cost.decoder.layer_parameters = layer_parameters(text, cost.decoder.width, 3, "num_attention_heads");
  cost.head = 2 * cost.decoder.width * text.value("vocab_size", json.value("vocab_size", 0.0));
  if (json.contains("vision_config")) {
    const nlohmann::json& vision = json["vision_config"];
    const bool embed = vision.contains("embed_dim");  // Qwen2-VL's names
    cost.encoder.width = size(vision, embed ? "embed_dim" : "hidden_size");
    cost.encoder.layers = size(vision, vision.contains("depth") ? "depth" : "num_hidden_layers");
    // Qwen2.5-VL's tower: gated, and in most of its layers patches attend within windows.
    const bool windows = vision.contains("fullatt_block_indexes") && vision.value("window_size", 0) > 0;
    if (windows) {
      const int64_t side = vision["window_size"].get<int64_t>() / std::max<int64_t>(1, vision.value("patch_size", 14));
      cost.encoder.window = side * side;
      cost.encoder.whole_layers = static_cast<double>(vision["fullatt_block_indexes"].size());
    }
    cost.encoder.layer_parameters =
        layer_parameters(vision, cost.encoder.width, windows ? 3 : 2,
                         vision.contains("num_heads") ? "num_heads" : "num_attention_heads");
  }
  return cost;
}

}  // namespace

WorkCost cost_of_option(const std::string& text) {
  if (text.find(',') == text.npos) return named_cost(text);
  double values[3] = {0, 0, 0};
  const char *at = text.data(), *const end = text.data() + text.size();
  bool good = true;
  for (int i = 0; good && i < 3; ++i) {
    const auto [stop, error] = std::from_chars(at, end, values[i]);
    good = error == std::errc{} && values[i] >= 0 && std::isfinite(values[i]) &&
           (i < 2 ? stop != end && *stop == ',' : stop == end);
    at = stop + 1;
  }
  if (!good || values[0] + values[1] <= 0)
    fail(
        Exit::kUsage,
        "lfrun balance: --cost: expected a model's name or three numbers A,B,C from 0 (A*L^2 + B*L + C seconds, A or B "
        "above 0), got {}",
        text);
  WorkCost cost;
  cost.quadratic = values[0];
  cost.linear = values[1];
  cost.per_sample = values[2];
  return cost;
}

WorkCost cost_of_model(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path /= "config.json";
  try {
    return cost_of_config(path);
  } catch (const nlohmann::json::exception& wrong) {
    fail(Exit::kBadData, "--model: {}: {}; give --cost instead", path.string(), wrong.what());
  }
}

}  // namespace lf
