#include "weights/adapter_directory.h"

#include <algorithm>
#include <cmath>
#include <functional>
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
constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight", kWrapped = ".base_layer";
constexpr std::string_view kTableUp = ".lora_embedding_A", kTableDown = ".lora_embedding_B";
constexpr const char* kPipelineName = "pytorch_lora_weights.safetensors";  // of diffusers (loaders/lora_base.py)
constexpr std::string_view kPipelinePrefix = "transformer.";
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

std::vector<std::string> texts(const Json& config, const char* key) {
  std::vector<std::string> found;
  if (config.contains(key) && config[key].is_array())
    for (const Json& item : config[key])
      if (item.is_string()) found.push_back(item);
  return found;
}

// Which parameter of a module an adapter is on; empty: on the module's map. peft wraps a module once for each of its
// parameters that is a target, in the order in which the class has them, and all classes with experts have gate_up_proj
// before down_proj; so ".base_layer" at the end of a name says that another one follows.
std::string target_parameter(const std::vector<std::string>& targets, const std::string& module, size_t wrapped) {
  std::vector<std::string> of_module;
  for (const std::string& target : targets) {
    const size_t dot = target.rfind('.');
    const std::string own = dot == target.npos ? "" : target.substr(0, dot), last = target.substr(dot + 1);
    if (own.empty() || module == own || module.ends_with("." + own)) of_module.push_back(last);
  }
  std::sort(of_module.begin(), of_module.end(), std::greater<>());  // gate_up_proj, down_proj
  of_module.erase(std::unique(of_module.begin(), of_module.end()), of_module.end());
  return wrapped < of_module.size() ? of_module[of_module.size() - 1 - wrapped] : std::string();
}

void refuse_other_kinds(const std::string& place, const Json& config) {
  std::vector<std::string> mistakes;
  const auto refuse = [&](const std::string& what) {
    mistakes.push_back(fmt::format("{}: {}; only plain LoRA is taken", place, what));
  };
  const auto got = [&](const char* key) { return config.contains(key) ? config[key].dump() : "none"; };
  if (!config.contains("peft_type") || config["peft_type"] != "LORA")
    refuse("peft_type: expected \"LORA\", got " + got("peft_type"));
  for (const char* flag : {"use_dora", "use_rslora", "fan_in_fan_out", "lora_bias"})
    if (config.contains(flag) && config[flag] == true) refuse(std::string(flag) + " is set");
  if (config.contains("bias") && config["bias"] != "none") refuse("bias: expected \"none\", got " + got("bias"));
  if (!config.contains("r") || !config["r"].is_number_integer()) refuse("r: expected a whole number, got " + got("r"));
  if (!config.contains("lora_alpha") || !config["lora_alpha"].is_number())
    refuse("lora_alpha: expected a number, got " + got("lora_alpha"));
  if (!mistakes.empty()) fail(Exit::kBadData, "{}", fmt::join(mistakes, "\n"));
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
  const std::vector<std::string> targets = texts(config, "target_parameters");
  made.ties_ = config.contains("ensure_weight_tying") && config["ensure_weight_tying"] == true;
  made.file_ = std::make_unique<SafetensorsFile>(path / kWeightsName);
  for (const TensorEntry& tensor : made.file_->tensors()) {
    const std::string& name = tensor.name;
    const auto refuse = [&](std::string_view what) {
      fail(Exit::kBadData, "{}: {}: {}", made.file_->path().string(), printable(name), what);
    };
    if (!name.starts_with(kAdapterPrefix)) refuse("expected a name that begins with base_model.model.");
    made.names_.push_back(name);
    const auto other_half = [&](std::string_view mine, std::string_view its) {
      const std::string stem = name.substr(0, name.size() - mine.size());
      const TensorEntry* found = made.file_->find(stem + std::string(its));
      if (found == nullptr) refuse(fmt::format("its {} is missing", its.substr(1)));
      return found;
    };
    if (name.ends_with(kUp)) other_half(kUp, kDown);
    if (name.ends_with(kTableDown)) other_half(kTableDown, kTableUp);
    const bool table = name.ends_with(kTableUp);
    if (!table && !name.ends_with(kDown)) continue;
    const std::string_view ending = table ? kTableUp : kDown;
    const TensorEntry* up = other_half(ending, table ? kTableDown : kUp);
    if (tensor.shape.size() != 2 || up->shape.size() != 2 || up->shape[1] != tensor.shape[0])
      refuse("expected A [r, in] and B [out, r]; adapters of convolutions are not taken");
    SavedAdapter adapter;
    adapter.module = name.substr(kAdapterPrefix.size(), name.size() - kAdapterPrefix.size() - ending.size());
    adapter.table = table;
    adapter.rank = tensor.shape[0];
    size_t wrapped = 0;
    for (; adapter.module.ends_with(kWrapped); ++wrapped)
      adapter.module.resize(adapter.module.size() - kWrapped.size());
    if (!table) adapter.parameter = target_parameter(targets, adapter.module, wrapped);
    if (wrapped > 0 && adapter.parameter.empty()) refuse("target_parameters names no parameter of it");
    const auto stated =
        static_cast<int64_t>(by_pattern(config, "rank_pattern", adapter.key(), config["r"].get<double>()));
    if (!adapter.parameter.empty() && stated > 0 && adapter.rank % stated == 0)
      adapter.rank = stated;  // of each expert
    if (adapter.rank != stated)
      refuse(fmt::format("its rank is {}, but {} says {}", adapter.rank, kConfigName, stated));
    adapter.alpha = by_pattern(config, "alpha_pattern", adapter.key(), config["lora_alpha"].get<double>());
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

namespace {

struct NamedTensor {
  std::string name;
  const AdapterTensor* tensor;
};

void write_tensors(FileSystem& files, const fs::path& file, const std::vector<NamedTensor>& tensors,
                   std::map<std::string, std::string> metadata) {
  std::vector<TensorSpec> specs;
  for (const NamedTensor& named : tensors) specs.push_back({named.name, DType::kF32, named.tensor->shape});
  const SafetensorsHeader header = SafetensorsHeader::plan(std::move(specs), std::move(metadata));
  const std::unique_ptr<OutputFile> out = files.create(file, header.file_size());
  out->write(0, header.text().data(), header.text().size());
  for (const NamedTensor& named : tensors)
    out->write(header.find(named.name)->begin, named.tensor->values.data(),
               named.tensor->values.size() * sizeof(float));
  out->sync();
}

// adapter_config.json. The commonest rank and alpha are the directory's; modules with others are named.
Json config_of(const AdapterExport& made) {
  std::map<std::pair<int64_t, double>, size_t> counts;
  for (const SavedAdapter& adapter : made.adapters) ++counts[{adapter.rank, adapter.alpha}];
  const auto common = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
  Json modules = Json::array(), parameters = Json::array(), ranks = Json::object(), alphas = Json::object();
  for (const SavedAdapter& adapter : made.adapters) {
    if (!adapter.shares) (adapter.parameter.empty() ? modules : parameters).push_back(adapter.key());
    const std::string key = (made.exact ? "^" : "") + adapter.key();
    if (adapter.rank != common.first) ranks[key] = adapter.rank;
    if (adapter.alpha != common.second) alphas[key] = number(adapter.alpha);
  }
  if (made.exact) {  // a text is a pattern of whole names, where a list is one of endings
    std::string pattern;
    for (const std::string module : modules)
      pattern += (pattern.empty() ? "" : "|") + std::regex_replace(module, std::regex("\\."), "\\.");
    modules = pattern;
  }
  return {{"alpha_pattern", alphas},
          {"base_model_name_or_path", made.base.empty() ? Json() : Json(made.base)},
          {"bias", "none"},
          {"ensure_weight_tying", made.ties},
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
          {"target_parameters", parameters.empty() ? Json() : parameters},
          {"task_type", nullptr},
          {"use_dora", false},
          {"use_rslora", false}};
}

void write_for_pipelines(FileSystem& files, const fs::path& file, const AdapterExport& made, Json config) {
  std::vector<NamedTensor> tensors;
  for (const AdapterTensor& tensor : made.tensors)
    if (tensor.name.ends_with(kDown) || tensor.name.ends_with(kUp))
      tensors.push_back({std::string(kPipelinePrefix) + tensor.name.substr(kAdapterPrefix.size()), &tensor});
  config["modules_to_save"] = nullptr;
  Json prefixed = Json::object();
  for (const auto& [key, value] : config.items()) prefixed[std::string(kPipelinePrefix) + key] = value;
  write_tensors(files, file, tensors, {{"format", "pt"}, {"lora_adapter_metadata", prefixed.dump(2)}});
}

}  // namespace

void write_adapter_directory(FileSystem& files, const AdapterExport& made, const std::vector<ExtraFile>& extra,
                             const fs::path& target) {
  const Json config = config_of(made);
  std::vector<NamedTensor> tensors;
  for (const AdapterTensor& tensor : made.tensors) tensors.push_back({tensor.name, &tensor});
  fs::path temporary = target;
  temporary += ".tmp";
  remove_tree(files, temporary);
  files.make_directory(temporary);
  write_tensors(files, temporary / kWeightsName, tensors, {{"format", "pt"}});
  write_file(files, temporary / kConfigName, config.dump(2) + "\n");
  if (made.diffusers) write_for_pipelines(files, temporary / kPipelineName, made, config);
  for (const ExtraFile& file : extra) write_file(files, temporary / file.name, file.bytes);
  files.sync_directory(temporary);
  replace_tree(files, temporary, target);
}

}  // namespace lf
