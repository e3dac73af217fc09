#include "weights/adapter_directory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "weights/convert.h"

namespace lf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kWeightsName = "adapter_model.safetensors";
constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";
constexpr uint64_t kMostConfigBytes = 16 << 20;

// The pattern that peft takes for a module (get_pattern_key of its tuners_utils.py): the first that matches the name's
// end from a dot on.
double by_pattern(const Json& config, const char* key, const std::string& module, double otherwise) {
  if (!config.contains(key) || !config[key].is_object()) return otherwise;
  for (const auto& [pattern, value] : config[key].items()) {
    bool fits = module == pattern || module.ends_with("." + pattern);
    if (!fits && pattern.find_first_of("*+?[](){}^$|\\") != std::string::npos) {
      try {
        fits = std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"));
      } catch (const std::regex_error&) {
        fits = false;
      }
    }
    if (fits) return value.get<double>();
  }
  return otherwise;
}

Json number(double value) {  // peft's own are integers
  if (std::floor(value) == value && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

void refuse_other_kinds(const std::string& place, const Json& config) {
  const auto refuse = [&](const std::string& what) {
    fail(Exit::kBadData, "{}: {}; only plain LoRA on linear maps is taken", place, what);
  };
  if (const std::string type = config.value("peft_type", ""); type != "LORA")
    refuse("peft_type: expected LORA, got " + (type.empty() ? "none" : type));
  for (const char* flag : {"use_dora", "use_rslora", "fan_in_fan_out", "lora_bias"})
    if (config.contains(flag) && config[flag] == true) refuse(std::string(flag) + " is set");
  if (config.value("bias", "none") != "none") refuse("bias: expected none, got " + config["bias"].dump());
  if (!config.contains("r") || !config["r"].is_number_integer() || !config.contains("lora_alpha") ||
      !config["lora_alpha"].is_number())
    refuse("expected r and lora_alpha, both numbers");
}

}  // namespace

AdapterDirectory AdapterDirectory::open(const fs::path& path) {
  const fs::path config_path = path / kConfigName;
  AdapterDirectory made;
  made.path_ = path;
  for (const char* file : {kConfigName, kWeightsName})
    if (std::error_code error; !fs::exists(path / file, error))
      fail(Exit::kInputMissing, "lora.path: {}: expected {} and {}, there is no {}", path.string(), kConfigName,
           kWeightsName, file);
  const Json config = Json::parse(read_text_file(config_path, kMostConfigBytes), nullptr, false);
  if (!config.is_object()) fail(Exit::kBadData, "{}: expected a JSON object; write it again", config_path.string());
  refuse_other_kinds(config_path.string(), config);
  made.file_ = std::make_unique<SafetensorsFile>(path / kWeightsName);
  for (const TensorEntry& tensor : made.file_->tensors()) {
    const std::string& name = tensor.name;
    const auto refuse = [&](std::string_view what) {
      fail(Exit::kBadData, "{}: {}: {}", made.file_->path().string(), printable(name), what);
    };
    if (!name.starts_with(kAdapterPrefix)) refuse("expected a name that begins with base_model.model.");
    made.names_.push_back(name);
    if (name.find("lora_embedding_") != std::string::npos) refuse("adapters of embeddings are not taken");
    if (name.ends_with(kUp) &&
        made.file_->find(name.substr(0, name.size() - kUp.size()) + std::string(kDown)) == nullptr)
      refuse("its lora_A is missing");
    if (!name.ends_with(kDown)) continue;
    const std::string stem = name.substr(0, name.size() - kDown.size());
    SavedAdapter adapter{stem.substr(kAdapterPrefix.size()), 0, 0};
    const TensorEntry* up = made.file_->find(stem + std::string(kUp));
    if (up == nullptr) refuse("its lora_B is missing");
    if (tensor.shape.size() != 2 || up->shape.size() != 2 || up->shape[1] != tensor.shape[0])
      refuse("expected A [r, in] and B [out, r]; adapters of convolutions are not taken");
    adapter.rank = tensor.shape[0];
    const double stated = by_pattern(config, "rank_pattern", adapter.module, config["r"].get<double>());
    if (static_cast<double>(adapter.rank) != stated)
      refuse(fmt::format("its rank is {}, but {} says {}", adapter.rank, kConfigName, stated));
    adapter.alpha = by_pattern(config, "alpha_pattern", adapter.module, config["lora_alpha"].get<double>());
    made.adapters_.push_back(std::move(adapter));
  }
  if (made.adapters_.empty()) fail(Exit::kBadData, "{}: holds no adapter", made.file_->path().string());
  return made;
}

std::vector<float> AdapterDirectory::values(const std::string& name, const std::vector<int64_t>& shape) const {
  const TensorEntry& tensor = file_->at(name);
  if (tensor.shape != shape || !is_convertible(tensor.dtype, DType::kF32))
    fail(Exit::kBadData, "{}: {}: expected floating-point values of shape [{}], got {} of [{}]", file_->path().string(),
         printable(name), fmt::join(shape, ", "), dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "));
  std::vector<float> values(static_cast<size_t>(whole(shape).elements()));
  convert(tensor.dtype, file_->bytes(tensor).data(), DType::kF32, values.data(), static_cast<int64_t>(values.size()));
  return values;
}

void write_adapter_directory(FileSystem& files, const AdapterExport& made, const fs::path& target) {
  // The commonest rank and alpha are the directory's; modules with others are named.
  std::map<std::pair<int64_t, double>, size_t> counts;
  for (const SavedAdapter& adapter : made.adapters) ++counts[{adapter.rank, adapter.alpha}];
  const auto common = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
  Json modules = Json::array(), ranks = Json::object(), alphas = Json::object();
  for (const SavedAdapter& adapter : made.adapters) {
    modules.push_back(adapter.module);
    if (adapter.rank != common.first) ranks[adapter.module] = adapter.rank;
    if (adapter.alpha != common.second) alphas[adapter.module] = number(adapter.alpha);
  }
  Json config = {{"alpha_pattern", alphas},
                 {"base_model_name_or_path", made.base.empty() ? Json() : Json(made.base)},
                 {"bias", "none"},
                 {"fan_in_fan_out", false},
                 {"inference_mode", true},
                 {"init_lora_weights", true},
                 {"lora_alpha", number(common.second)},
                 {"lora_dropout", made.dropout},
                 {"modules_to_save", made.whole_modules.empty() ? Json() : Json(made.whole_modules)},
                 {"peft_type", "LORA"},
                 {"r", common.first},
                 {"rank_pattern", ranks},
                 {"target_modules", modules},
                 {"task_type", nullptr},
                 {"use_dora", false},
                 {"use_rslora", false}};
  std::vector<TensorSpec> specs;
  for (const AdapterTensor& tensor : made.tensors) specs.push_back({tensor.name, DType::kF32, tensor.shape});
  const SafetensorsHeader header = SafetensorsHeader::plan(std::move(specs), {{"format", "pt"}});
  fs::path temporary = target;
  temporary += ".tmp";
  remove_tree(files, temporary);
  files.make_directory(temporary);
  {
    const std::unique_ptr<OutputFile> out = files.create(temporary / kWeightsName, header.file_size());
    out->write(0, header.text().data(), header.text().size());
    for (const AdapterTensor& tensor : made.tensors)
      out->write(header.find(tensor.name)->begin, tensor.values.data(), tensor.values.size() * sizeof(float));
    out->sync();
  }
  write_file(files, temporary / kConfigName, config.dump(2) + "\n");
  files.sync_directory(temporary);
  replace_tree(files, temporary, target);
}

}  // namespace lf
