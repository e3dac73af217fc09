#include "train/adapters.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "mesh/slices.h"
#include "model/patterns.h"
#include "weights/read_tensor.h"

namespace lf {
namespace {

// Tensors of a parameter as peft saves them: visit(name, shape, fragment) for each.
template <typename Visit>
void each_class_tensor(const ParameterInfo& parameter, Visit visit) {
  for (const Fragment& fragment : fragments(parameter, whole(parameter.shape))) {
    ParameterPart part = parameter.parts[static_cast<size_t>(fragment.part)];
    part.name = class_tensor(part);
    visit(std::string(kAdapterPrefix) + file_tensor_name(part, fragment.index), file_tensor_shape(part), fragment);
  }
}

// What peft calls an adapter's place: a module, or a stack of experts in one.
std::string place_of(const ParameterInfo& parameter, uint32_t part) {
  if (parameter.tied_to >= 0 || (parameter.flags & LF_PARAM_EXPERT) != 0)
    return module_name(class_parameter(parameter));
  return module_name(class_tensor(parameter.parts[part]));
}

bool is_table(const ParameterInfo& parameter) { return (parameter.flags & LF_PARAM_LOOKUP) != 0; }

std::vector<AdapterRequest> requests_of(const AdapterDirectory& directory, const Description& description,
                                        double dropout) {
  std::map<std::string, const SavedAdapter*> left;
  for (const SavedAdapter& adapter : directory.adapters()) left[adapter.key()] = &adapter;
  std::vector<AdapterRequest> requests;
  std::vector<std::string> places;
  const auto refuse_untied = [&](const std::string& place, const ParameterInfo& parameter) {
    fail(Exit::kConfig,
         "lora.path: {}: has an adapter on {} alone, whose weights are tied to {}: they would no longer be once it is "
         "merged; make it with ensure_weight_tying, or untie the model (tie_word_embeddings)",
         directory.path().string(), place, description.parameters[static_cast<size_t>(parameter.tied_to)].name);
  };
  for (size_t p = 0; p < description.parameters.size(); ++p) {
    const ParameterInfo& parameter = description.parameters[p];
    if ((parameter.flags & LF_PARAM_LINEAR) == 0) continue;
    const bool stack = (parameter.flags & LF_PARAM_EXPERT) != 0;
    for (uint32_t part = 0; part < (stack ? 1 : parameter.parts.size()); ++part) {
      places.push_back(place_of(parameter, part));
      const auto found = left.find(places.back());
      const bool shares = parameter.tied_to >= 0;
      const auto shared = std::find_if(requests.begin(), requests.end(), [&](const AdapterRequest& request) {
        return static_cast<int64_t>(request.parameter) == parameter.tied_to;
      });
      // A head tied to a table: both have it or none.
      const bool differs =
          shares && is_table(parameter) != is_table(description.parameters[static_cast<size_t>(parameter.tied_to)]);
      if (differs && (found == left.end()) != (shared == requests.end())) refuse_untied(places.back(), parameter);
      if (found == left.end()) continue;
      if (shares && (!directory.ties() || shared == requests.end())) refuse_untied(places.back(), parameter);
      if (shares && (found->second->rank != shared->rank || found->second->alpha != shared->alpha))
        fail(Exit::kConfig,
             "lora.path: {}: scales {} by {} / {} and what it is tied to by {} / {}; give both the same rank_pattern "
             "and alpha_pattern",
             directory.path().string(), places.back(), found->second->alpha, found->second->rank, shared->alpha,
             shared->rank);
      if (!shares) {
        if (found->second->table != is_table(parameter) || stack == found->second->parameter.empty())
          fail(Exit::kConfig, "lora.path: {}: has an adapter on {} as if that were {}", directory.path().string(),
               places.back(), found->second->table ? "a table" : "another kind of map");
        requests.push_back({p, part, found->second->rank, found->second->alpha, stack ? 0 : dropout});
      }
      left.erase(found);
    }
  }
  if (!left.empty())
    fail(Exit::kConfig,
         "lora.path: {}: has {} on modules that are no linear maps of this model, such as {}; near it are {}",
         directory.path().string(), left.size() == 1 ? "an adapter" : "adapters", left.begin()->first,
         near_names(left.begin()->first, places));
  return requests;
}

// f32 values of a slot's parameter as the file tensor of `named` has them, whose values it shares.
AdapterTensor file_tensor(const ParameterStore& store, const ParameterInfo& named, const ParameterSlot& slot) {
  const std::vector<float> values = store.values_f32(slot);
  const ParameterPart& part = named.parts[0];
  AdapterTensor tensor{part.name, file_tensor_shape(part), std::vector<float>(values.size())};
  for (const Fragment& of : fragments(named, whole(named.shape)))
    copy_box({values.data(), DType::kF32, named.shape, of.full},
             {tensor.values.data(), DType::kF32, tensor.shape, of.file}, of.transposed);
  return tensor;
}

// Wan's authors' own class has names of its own, which diffusers does not open.
bool is_of_diffusers(const std::string& model_config) {
  const nlohmann::json root = nlohmann::json::parse(model_config, nullptr, false);
  return root.is_object() && root.value("_class_name", "").size() > 0 && root.value("_class_name", "") != "WanModel";
}

// Whether the name of some module ends with an adapted one's, as "blocks.0.proj_out" with "proj_out".
bool is_ambiguous(const Description& description) {
  std::set<std::string> adapted;
  for (const Adapter& adapter : description.adapters) adapted.insert(adapter.module);
  for (const ParameterInfo& parameter : description.own_parameters())
    for (const ParameterPart& part : parameter.parts) {
      const std::string module = module_name(class_tensor(part));
      for (size_t dot = module.find('.'); dot != module.npos; dot = module.find('.', dot + 1))
        if (adapted.contains(module.substr(dot + 1))) return true;
    }
  return false;
}

}  // namespace

std::vector<AdapterRequest> requested_adapters(const JobConfig& config, const Description& description) {
  const LoraSection& lora = config.lora;
  if (!lora.asked()) return {};
  if (lora.path.empty()) return adapter_requests(description, lora);
  return requests_of(AdapterDirectory::open(lora.path), description, lora.dropout);
}

void merge_adapters(const ParameterStore& store, size_t parameter, std::vector<float>& values) {
  const Description& description = store.description();
  const ParameterInfo& map = description.parameters[parameter];
  const at::Tensor whole_map = at::from_blob(values.data(), map.shape, at::kFloat);
  for (const Adapter& adapter : description.adapters) {
    if (adapter.parameter != parameter) continue;
    std::vector<float> a = store.values_f32(store.slot(adapter.down)), b = store.values_f32(store.slot(adapter.up));
    const at::Tensor down = at::from_blob(a.data(), description.parameters[adapter.down].shape, at::kFloat);
    const at::Tensor up = at::from_blob(b.data(), description.parameters[adapter.up].shape, at::kFloat);
    if (!adapter.stack.empty()) {  // W_e of y = x W_e: Aᵀ Bᵀ
      const int64_t experts = map.shape[0];
      const at::Tensor of_expert = up.view({up.size(0), adapter.rank, experts}).permute({2, 1, 0});
      whole_map.baddbmm_(down.view({experts, adapter.rank, down.size(1)}).transpose(1, 2), of_expert, /*beta=*/1,
                         adapter.scale());
      continue;
    }
    int64_t first_row = 0;
    for (uint32_t part = 0; part < adapter.part; ++part) first_row += map.parts[part].shape[0];
    whole_map.narrow(0, first_row, up.size(0)).addmm_(up, down, /*beta=*/1, adapter.scale());
  }
}

AdapterExport adapter_export(const ParameterStore& store, const JobConfig& config, const std::string& model_config) {
  const Description& description = store.description();
  AdapterExport made;
  made.diffusers = is_of_diffusers(model_config);
  made.exact = is_ambiguous(description);
  made.base = config.model.path.string();
  made.dropout = config.lora.dropout;
  for (const Adapter& adapter : description.adapters) {
    const ParameterInfo& map = description.parameters[adapter.parameter];
    if (adapter.shares >= 0) {
      // A head is saved beside its table; a second use of the same table or head is none of the class's.
      const Adapter& shared = description.adapters[static_cast<size_t>(adapter.shares)];
      if (is_table(map) == is_table(description.parameters[shared.parameter])) continue;
      made.ties = true;
    }
    made.adapters.push_back(
        {adapter.module, adapter.rank, adapter.alpha, is_table(map), adapter.stack, adapter.shares >= 0});
    for (const size_t p : {adapter.down, adapter.up})
      made.tensors.push_back(file_tensor(store, description.parameters[p], store.slot(p)));
  }
  for (const ParameterSlot& slot : store.slots()) {
    const ParameterInfo& parameter = description.parameters[slot.parameter];
    if (!slot.trained || (parameter.flags & kParameterAdapter) != 0) continue;
    const std::vector<float> values = store.values_f32(slot);
    each_class_tensor(parameter, [&](const std::string& name, const std::vector<int64_t>& shape, const Fragment& of) {
      AdapterTensor tensor{name, shape, std::vector<float>(static_cast<size_t>(whole(shape).elements()))};
      copy_box({values.data(), DType::kF32, parameter.shape, of.full},
               {tensor.values.data(), DType::kF32, shape, of.file}, of.transposed);
      made.tensors.push_back(std::move(tensor));
      const std::string module = name.substr(kAdapterPrefix.size(), name.rfind('.') - kAdapterPrefix.size());
      if (std::find(made.whole_modules.begin(), made.whole_modules.end(), module) == made.whole_modules.end())
        made.whole_modules.push_back(module);
    });
  }
  return made;
}

void take_adapter(const AdapterDirectory& directory, const ParameterInfo& parameter, std::vector<float>& values) {
  const ParameterPart& part = parameter.parts[0];
  const std::vector<int64_t> shape = file_tensor_shape(part);
  const std::vector<float> stored = directory.values(part.name, shape);
  values.resize(stored.size());
  for (const Fragment& of : fragments(parameter, whole(parameter.shape)))
    copy_box({stored.data(), DType::kF32, shape, of.file}, {values.data(), DType::kF32, parameter.shape, of.full},
             of.transposed);
}

void require_shared(const AdapterDirectory& directory, const Description& description) {
  for (const ParameterInfo& parameter : description.parameters) {
    if ((parameter.flags & kParameterAdapter) == 0 || parameter.tied_to < 0 ||
        directory.find(parameter.parts[0].name) == nullptr)
      continue;
    const ParameterInfo& own = description.parameters[static_cast<size_t>(parameter.tied_to)];
    std::vector<float> mine, shared;
    take_adapter(directory, parameter, mine);
    take_adapter(directory, own, shared);
    if (mine != shared)
      fail(Exit::kBadData, "lora.path: {}: {} and {} are one adapter of weights that are tied, but hold other values",
           directory.path().string(), parameter.parts[0].name, own.parts[0].name);
  }
}

bool take_whole(const AdapterDirectory& directory, const ParameterInfo& parameter, std::vector<float>& values) {
  bool any = false;
  each_class_tensor(parameter, [&](const std::string& name, const std::vector<int64_t>& shape, const Fragment& of) {
    if (directory.find(name) == nullptr) return;
    const std::vector<float> stored = directory.values(name, shape);
    copy_box({stored.data(), DType::kF32, shape, of.file}, {values.data(), DType::kF32, parameter.shape, of.full},
             of.transposed);
    any = true;
  });
  return any;
}

}  // namespace lf
