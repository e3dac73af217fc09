#include "train/weights.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "train/adapters.h"
#include "train/new_parameters.h"

namespace lf {
namespace {

// Tensors that published checkpoints carry and no parameter stands behind.
const std::vector<std::string> kIgnored = {"*.rotary_emb.inv_freq"};

std::optional<DType> wanted_dtype(const std::string& word) {
  if (word == "fp32") return DType::kF32;
  if (word == "bf16") return DType::kBf16;
  return std::nullopt;
}

// What config.json says its weights are in; nothing where it does not.
std::optional<DType> stated_dtype(const std::string& model_config) {
  const nlohmann::json config = nlohmann::json::parse(model_config, nullptr, false);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.is_object() || !config.contains(key) || !config[key].is_string()) continue;
    if (config[key] == "float32") return DType::kF32;
    if (config[key] == "bfloat16") return DType::kBf16;
    if (config[key] == "float16") return DType::kF16;
  }
  return std::nullopt;
}

std::vector<std::byte> stored_values(const LoadPlan& plan, size_t parameter) {
  const DType dtype = plan.stored_dtype(parameter);
  std::vector<std::byte> bytes(static_cast<size_t>(element_count(plan.table()[parameter]) * dtype_bytes(dtype)));
  plan.load(parameter, dtype, bytes.data());
  return bytes;
}

bool is_adapted(const Description& description, size_t parameter) {
  return std::any_of(description.adapters.begin(), description.adapters.end(),
                     [&](const Adapter& adapter) { return adapter.parameter == parameter; });
}

// Whether the adapters that the job started from brought values of their own for it.
bool holds_whole(const AdapterDirectory* adapters, const ParameterInfo& parameter) {
  if (adapters == nullptr) return false;
  std::vector<float> values(static_cast<size_t>(element_count(parameter)));
  return take_whole(*adapters, parameter, values);
}

// Every tensor of the directory is an adapter's or a parameter's.
void require_all_known(const AdapterDirectory& adapters, const Description& description) {
  std::set<std::string> known;
  for (const ParameterInfo& parameter : description.parameters)
    for (const ParameterPart& part : parameter.parts)
      for (int64_t index = 0; index < file_tensor_count(part); ++index) {
        ParameterPart named = part;
        named.name = class_tensor(part);
        const std::string name = file_tensor_name(named, index);
        known.insert((parameter.flags & kParameterAdapter) != 0 ? name : std::string(kAdapterPrefix) + name);
      }
  for (const std::string& name : adapters.tensors())
    if (!known.contains(name))
      fail(Exit::kBadData, "lora.path: {}: holds {}, which this model has not; was it made for another?",
           adapters.path().string(), printable(name));
}

}  // namespace

WeightSource::WeightSource(const JobConfig& config, const Description& description) {
  if (!config.lora.path.empty()) {
    adapters_ = std::make_unique<AdapterDirectory>(AdapterDirectory::open(config.lora.path));
    require_all_known(*adapters_, description);
  }
  if (config.model.path.empty()) return;
  directory_ = std::make_unique<ModelDirectory>(ModelDirectory::open(config.model.path));
  plan_ = std::make_unique<LoadPlan>(*directory_, description.own_parameters(), kIgnored,
                                     named_new(description, config.model));
  require_new(description, config.model, *plan_);
  new_parameters_ = new_parameters_text(*plan_, config.job.seed);
  if (!config.model.config.empty()) replaces_config_ = true;
}

void WeightSource::fill(const ParameterStore& store, uint64_t seed) const {
  if (adapters_) require_shared(*adapters_, store.description());
  std::vector<float> values;
  for (const ParameterSlot& slot : store.slots()) {
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    values.resize(static_cast<size_t>(slot.elements));
    if (adapters_ && (parameter.flags & kParameterAdapter) != 0) {
      take_adapter(*adapters_, parameter, values);
      require_finite(adapters_->path().string(), parameter, values);
    } else if (plan_ && (parameter.flags & kParameterAdapter) == 0 && !plan_->is_absent(slot.parameter)) {
      plan_->load(slot.parameter, DType::kF32, values.data());
      require_finite(directory_->path().string(), parameter, values);
    } else {
      initialise(parameter, seed, kAlone, whole(parameter.shape), DType::kF32, values.data());
    }
    if (adapters_ && take_whole(*adapters_, parameter, values))
      require_finite(adapters_->path().string(), parameter, values);
    store.set_values(slot, values);
  }
  store.publish();
}

void WeightSource::export_model(const ParameterStore& store, const std::string& dtype, const std::string& model_config,
                                const std::filesystem::path& tokenizer, const std::vector<ExtraFile>& extra,
                                const std::filesystem::path& target) const {
  PosixFileSystem files;
  const std::vector<ParameterInfo> table = store.description().own_parameters();
  ModelExport out = [&] {
    if (plan_)
      return ModelExport::over_source(files, *plan_, target, wanted_dtype(dtype),
                                      replaces_config_ ? model_config : std::string());
    ModelExport::Scratch request;
    request.table = table;
    request.dtype = wanted_dtype(dtype).value_or(
        stated_dtype(model_config).value_or(store.dtype() == LF_DTYPE_F32 ? DType::kF32 : DType::kBf16));
    request.config = config_with_dtype("config.json", model_config, request.dtype);
    request.tokenizer = tokenizer;
    return ModelExport::from_scratch(files, std::move(request), target);
  }();
  out.add(extra);
  out.create();
  for (const ParameterSlot& slot : store.slots()) {
    if (slot.parameter >= table.size()) continue;  // an adapter's
    const ParameterInfo& parameter = table[slot.parameter];
    if (is_adapted(store.description(), slot.parameter)) {
      std::vector<float> values = own_values(store, slot);
      merge_adapters(store, slot.parameter, values);
      out.write(slot.parameter, kAlone, whole(parameter.shape), DType::kF32, values.data());
    } else if (!slot.trained && !holds_whole(adapters_.get(), parameter) && plan_ &&
               !plan_->is_absent(slot.parameter) && plan_->stored_dtype(slot.parameter) != DType::kF8E4M3) {
      const std::vector<std::byte> bytes = stored_values(*plan_, slot.parameter);
      out.write(slot.parameter, kAlone, whole(parameter.shape), plan_->stored_dtype(slot.parameter), bytes.data());
    } else {
      const std::vector<float> values = store.values_f32(slot);
      out.write(slot.parameter, kAlone, whole(parameter.shape), DType::kF32, values.data());
    }
  }
  out.publish(out.written_bytes());
  for (const std::string& file : out.left_out())
    log::warning("{} of {} is not carried over to {}: it holds the weights before training", file,
                 directory_->path().string(), target.string());
}

// Before adapters: as files have them where there are files, which may be wider than what the job computes in.
std::vector<float> WeightSource::own_values(const ParameterStore& store, const ParameterSlot& slot) const {
  if (!plan_ || plan_->is_absent(slot.parameter)) return store.values_f32(slot);
  std::vector<float> values(static_cast<size_t>(slot.elements));
  plan_->load(slot.parameter, DType::kF32, values.data());
  return values;
}

void WeightSource::export_adapters(const ParameterStore& store, const JobConfig& config,
                                   const std::string& model_config, const std::vector<ExtraFile>& extra,
                                   const std::filesystem::path& target) const {
  PosixFileSystem files;
  const AdapterExport made = adapter_export(store, config, model_config);
  write_adapter_directory(files, made, extra, target);
  if (made.diffusers && !made.whole_modules.empty())
    log::warning(
        "{}: pytorch_lora_weights.safetensors, for pipelines of diffusers, has adapters alone; what lora.also_train "
        "trained is in adapter_model.safetensors, for peft",
        target.string());
}

}  // namespace lf
