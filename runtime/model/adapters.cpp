#include "model/adapters.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"
#include "model/patterns.h"

namespace lf {
namespace {

struct Target {
  std::string option;  // that names it in messages
  const std::vector<std::string>& patterns;
  int64_t rank;
  double alpha, dropout;
};

std::vector<Target> targets_of(const LoraSection& lora) {
  std::vector<Target> targets;
  if (!lora.targets.empty()) targets.push_back({"lora.targets", lora.targets, lora.rank, lora.alpha, lora.dropout});
  for (size_t i = 0; i < lora.groups.size(); ++i) {
    const LoraGroup& group = lora.groups[i];
    targets.push_back({fmt::format("lora.groups: table {}", i + 1), group.targets, group.rank.value_or(lora.rank),
                       group.alpha.value_or(lora.alpha), group.dropout.value_or(lora.dropout)});
  }
  return targets;
}

std::vector<std::string> names_of(const ParameterInfo& parameter, const ParameterPart& part) {
  std::vector<std::string> names = {parameter.name, part.name, class_tensor(part)};
  for (size_t i = 0; i < 3; ++i) names.push_back(module_name(names[i]));
  return names;
}

bool selects(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); });
}

bool is_map(const ParameterInfo& parameter) { return (parameter.flags & LF_PARAM_LINEAR) != 0; }

[[noreturn]] void refuse_pattern(const Description& description, const std::string& option,
                                 const std::string& pattern) {
  std::vector<std::string> maps, others;
  for (const Component& component : description.components)
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p) {
      const ParameterInfo& parameter = description.parameters[p];
      for (const ParameterPart& part : parameter.parts) {
        if (is_map(parameter))
          maps.push_back(part.name);
        else if (selects(pattern, names_of(parameter, part)) || matches(pattern, component.name))
          others.push_back(part.name);
      }
    }
  if (maps.empty())
    fail(Exit::kConfig, "{}: \"{}\": expected linear maps that can have adapters, this model has none", option,
         pattern);
  if (!others.empty())
    fail(Exit::kConfig,
         "{}: \"{}\" matches no linear map that can have an adapter: {} cannot (only plain y = x Wᵀ can: no embedding, "
         "head, router, norm, convolution or expert); to train it as it is, name it in lora.also_train; maps that can "
         "are {}",
         option, pattern, near_names(others.front(), others), near_names(pattern, maps));
  fail(Exit::kConfig,
       "{}: \"{}\" matches nothing, so it would adapt nothing; it is a shell pattern over the names of components and "
       "linear maps; near it are {}",
       option, pattern, near_names(pattern, maps));
}

}  // namespace

std::string module_name(const std::string& tensor) {
  constexpr std::string_view kEnding = ".weight";
  return tensor.ends_with(kEnding) ? tensor.substr(0, tensor.size() - kEnding.size()) : tensor;
}

const std::string& class_tensor(const ParameterPart& part) {
  return part.class_name.empty() ? part.name : part.class_name;
}

std::vector<AdapterRequest> adapter_requests(const Description& description, const LoraSection& lora) {
  const std::vector<Target> targets = targets_of(lora);
  std::vector<std::vector<uint8_t>> found(targets.size());  // by pattern: whether it selected a map
  for (size_t t = 0; t < targets.size(); ++t) found[t].resize(targets[t].patterns.size());
  std::vector<AdapterRequest> requests;
  for (const Component& component : description.components)
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p) {
      const ParameterInfo& parameter = description.parameters[p];
      if (!is_map(parameter)) continue;
      for (uint32_t part = 0; part < parameter.parts.size(); ++part) {
        const std::vector<std::string> names = names_of(parameter, parameter.parts[part]);
        const Target* by = nullptr;
        for (size_t t = 0; t < targets.size(); ++t) {
          bool selected = false;
          for (size_t i = 0; i < targets[t].patterns.size(); ++i) {
            const std::string& pattern = targets[t].patterns[i];
            if (!matches(pattern, component.name) && !selects(pattern, names)) continue;
            found[t][i] = 1;
            selected = true;
          }
          if (!selected) continue;
          if (by != nullptr)
            fail(Exit::kConfig,
                 "{}: {} is selected by {} too, and a map has one adapter; narrow the patterns of one of the two",
                 targets[t].option, parameter.parts[part].name, by->option);
          by = &targets[t];
        }
        if (by != nullptr) requests.push_back({p, part, by->rank, by->alpha, by->dropout});
      }
    }
  for (size_t t = 0; t < targets.size(); ++t)
    for (size_t i = 0; i < found[t].size(); ++i)
      if (found[t][i] == 0) refuse_pattern(description, targets[t].option, targets[t].patterns[i]);
  return requests;
}

void add_adapters(Description& description, const std::vector<AdapterRequest>& requests) {
  for (const AdapterRequest& request : requests) {
    const ParameterInfo map = description.parameters[request.parameter];
    const ParameterPart& part = map.parts[request.part];
    const uint32_t unit = description.parameter_unit[request.parameter];
    Adapter adapter{request.parameter,
                    request.part,
                    0,
                    0,
                    request.rank,
                    request.alpha,
                    request.dropout,
                    module_name(class_tensor(part))};
    const auto add = [&](const char* which, std::vector<int64_t> shape) {
      ParameterInfo info;
      info.name = fmt::format("{}.{}.weight", module_name(part.name), which);
      info.flags = kParameterAdapter;
      info.shape = shape;
      ParameterPart saved;
      saved.name = fmt::format("base_model.model.{}.{}.weight", adapter.module, which);
      saved.shape = std::move(shape);
      info.parts = {std::move(saved)};
      description.parameters.push_back(std::move(info));
      description.parameter_unit.push_back(unit);
      return description.parameters.size() - 1;
    };
    const int64_t in = map.shape[1];
    adapter.down = add("lora_A", {request.rank, in});
    adapter.up = add("lora_B", {part.shape[0], request.rank});
    ParameterInfo& down = description.parameters[adapter.down];
    down.init = LF_INIT_UNIFORM;  // torch.nn.init.kaiming_uniform_(A, a = sqrt(5)), as peft has it
    down.init_b = 1 / std::sqrt(static_cast<double>(in));
    down.init_a = -down.init_b;
    const auto home =
        std::find_if(description.components.begin(), description.components.end(), [&](const Component& c) {
          return request.parameter >= c.first_parameter && request.parameter < c.first_parameter + c.n_parameters;
        });
    home->adapters.push_back(adapter.down);
    home->adapters.push_back(adapter.up);
    description.adapters.push_back(std::move(adapter));
  }
}

void Model::adapt(const std::vector<AdapterRequest>& requests) {
  if (requests.empty()) return;
  if (!LF_HAS(api_, adapt))
    fail(Exit::kConfig, "lora: model plugin {} cannot give its maps adapters; remove [lora], or train it as it is",
         plugin_id_);
  std::vector<lf_adapter> adapters;
  for (const AdapterRequest& request : requests) {
    auto adapter = sdk::with_header<lf_adapter>();
    for (uint32_t c = 0; c < description_.components.size(); ++c)
      if (request.parameter >= description_.components[c].first_parameter) adapter.component = c;
    adapter.param =
        static_cast<uint32_t>(request.parameter - description_.components[adapter.component].first_parameter);
    adapter.part = request.part;
    adapter.rank = request.rank;
    adapter.scale = request.alpha / static_cast<double>(request.rank);
    adapter.dropout = request.dropout;
    adapters.push_back(adapter);
  }
  lf_err err = sdk::make_err();
  if (api_->adapt(model_, adapters.data(), static_cast<uint32_t>(adapters.size()), &err) != LF_OK)
    fail(Exit::kConfig, "lora: model plugin {}: {}", plugin_id_, err.message);
  add_adapters(description_, requests);
}

}  // namespace lf
