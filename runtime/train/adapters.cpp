#include "train/adapters.h"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

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

std::vector<AdapterRequest> requests_of(const AdapterDirectory& directory, const Description& description,
                                        double dropout) {
  std::map<std::string, const SavedAdapter*> left;
  for (const SavedAdapter& adapter : directory.adapters()) left[adapter.module] = &adapter;
  std::vector<AdapterRequest> requests;
  std::vector<std::string> modules;
  for (size_t p = 0; p < description.parameters.size(); ++p) {
    const ParameterInfo& parameter = description.parameters[p];
    if ((parameter.flags & LF_PARAM_LINEAR) == 0) continue;
    for (uint32_t part = 0; part < parameter.parts.size(); ++part) {
      modules.push_back(module_name(class_tensor(parameter.parts[part])));
      const auto found = left.find(modules.back());
      if (found == left.end()) continue;
      requests.push_back({p, part, found->second->rank, found->second->alpha, dropout});
      left.erase(found);
    }
  }
  if (!left.empty())
    fail(Exit::kConfig,
         "lora.path: {}: has {} on modules that are no linear maps of this model, such as {}; near it are {}",
         directory.path().string(), left.size() == 1 ? "an adapter" : "adapters", left.begin()->first,
         near_names(left.begin()->first, modules));
  return requests;
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
    int64_t first_row = 0;
    for (uint32_t part = 0; part < adapter.part; ++part) first_row += map.parts[part].shape[0];
    std::vector<float> a = store.values_f32(store.slot(adapter.down)), b = store.values_f32(store.slot(adapter.up));
    const at::Tensor down = at::from_blob(a.data(), description.parameters[adapter.down].shape, at::kFloat);
    const at::Tensor up = at::from_blob(b.data(), description.parameters[adapter.up].shape, at::kFloat);
    whole_map.narrow(0, first_row, up.size(0)).addmm_(up, down, /*beta=*/1, adapter.scale());
  }
}

AdapterExport adapter_export(const ParameterStore& store, const JobConfig& config) {
  const Description& description = store.description();
  AdapterExport made;
  made.base = config.model.path.string();
  made.dropout = config.lora.dropout;
  for (const Adapter& adapter : description.adapters) {
    made.adapters.push_back({adapter.module, adapter.rank, adapter.alpha});
    for (const size_t p : {adapter.down, adapter.up}) {
      const ParameterInfo& parameter = description.parameters[p];
      made.tensors.push_back({parameter.parts[0].name, parameter.shape, store.values_f32(store.slot(p))});
    }
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
