#include "model/adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/problems.h"
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
  std::vector<std::string> names = {parameter.name, class_parameter(parameter), part.name, class_tensor(part)};
  for (size_t i = 0; i < 4; ++i) names.push_back(module_name(names[i]));
  return names;
}

bool selects(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); });
}

bool is_map(const ParameterInfo& parameter) { return (parameter.flags & LF_PARAM_LINEAR) != 0; }
bool is_stack(const ParameterInfo& parameter) { return (parameter.flags & LF_PARAM_EXPERT) != 0; }
bool is_table(const ParameterInfo& parameter) { return (parameter.flags & LF_PARAM_LOOKUP) != 0; }
// Tables, heads and experts are asked for by what they are called: neither a component's name nor "*" means them, nor
// does "*.down_proj" the experts.
bool selects_map(const std::string& pattern, const Component& component, const ParameterInfo& parameter,
                 const std::vector<std::string>& names) {
  const bool of_component = matches(pattern, component.name);
  if (is_stack(parameter)) return !of_component && pattern.find("experts") != pattern.npos && selects(pattern, names);
  if ((parameter.flags & (LF_PARAM_LOOKUP | LF_PARAM_LOGITS)) != 0) return !of_component && selects(pattern, names);
  return of_component || selects(pattern, names);
}

// "model.layers.0.mlp.experts.gate_up_proj" -> its module and the parameter in it.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string useless_target(const Description& description, const std::string& option, const std::string& pattern) {
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
    return fmt::format("{}: \"{}\": expected linear maps that can have adapters, this model has none", option, pattern);
  if (!others.empty())
    return fmt::format(
        "{}: \"{}\" matches nothing that can have an adapter: {} cannot (linear maps, tables, heads and experts can: "
        "no "
        "router, norm or convolution); to train it as it is, name it in lora.also_train; maps that can are {}",
        option, pattern, near_names(others.front(), others), near_names(pattern, maps));
  return fmt::format(
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

const std::string& class_parameter(const ParameterInfo& parameter) {
  return parameter.class_name.empty() ? parameter.name : parameter.class_name;
}

std::vector<AdapterRequest> adapter_requests(const Description& description, const LoraSection& lora) {
  const std::vector<Target> targets = targets_of(lora);
  std::vector<std::vector<uint8_t>> found(targets.size());  // by pattern: whether it selected a map
  for (size_t t = 0; t < targets.size(); ++t) found[t].resize(targets[t].patterns.size());
  std::vector<AdapterRequest> requests;
  std::map<std::pair<size_t, uint32_t>, const Target*> taken;  // by own parameter and part
  for (const Component& component : description.components)
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p) {
      const ParameterInfo& parameter = description.parameters[p];
      if (!is_map(parameter)) continue;
      const auto parts = static_cast<uint32_t>(parameter.parts.size());
      for (uint32_t part = 0; part < parts; ++part) {
        const std::vector<std::string> names = names_of(parameter, parameter.parts[part]);
        const size_t own = parameter.tied_to < 0 ? p : static_cast<size_t>(parameter.tied_to);
        const Target*& by = taken[{own, is_stack(parameter) ? 0 : part}];
        for (size_t t = 0; t < targets.size(); ++t) {
          bool selected = false;
          for (size_t i = 0; i < targets[t].patterns.size(); ++i) {
            const std::string& pattern = targets[t].patterns[i];
            if (!selects_map(pattern, component, parameter, names)) continue;
            found[t][i] = 1;
            selected = true;
          }
          if (!selected || by == &targets[t]) continue;
          if (by != nullptr)
            fail(Exit::kConfig,
                 "{}: {} is selected by {} too, and a map has one adapter; narrow the patterns of one of the two",
                 targets[t].option, parameter.parts[part].name, by->option);
          by = &targets[t];
          if (is_stack(parameter) && by->dropout > 0)
            fail(Exit::kConfig,
                 "{}: {} is a stack of experts, whose adapters drop nothing (peft refuses to), got dropout {}; give "
                 "experts a [[lora.groups]] of their own with dropout = 0",
                 by->option, parameter.name, by->dropout);
          requests.push_back({own, is_stack(parameter) ? 0 : part, by->rank, by->alpha, by->dropout});
        }
      }
    }
  Problems problems;
  for (size_t t = 0; t < targets.size(); ++t)
    for (size_t i = 0; i < found[t].size(); ++i)
      if (found[t][i] == 0)
        problems.add(Exit::kConfig, useless_target(description, targets[t].option, targets[t].patterns[i]));
  problems.refuse_if_any();
  return requests;
}

std::vector<AdapterRequest> with_tied(const Description& description, const std::vector<AdapterRequest>& requests) {
  std::vector<AdapterRequest> all = requests;
  for (const AdapterRequest& request : requests)
    for (size_t p = 0; p < description.parameters.size(); ++p)
      if (description.parameters[p].tied_to == static_cast<int64_t>(request.parameter)) {
        all.push_back(request);
        all.back().parameter = p;
      }
  // In the order of units, as components list their adapters; what is shared comes before who shares it.
  std::stable_sort(all.begin(), all.end(), [](const AdapterRequest& a, const AdapterRequest& b) {
    return std::pair(a.parameter, a.part) < std::pair(b.parameter, b.part);
  });
  return all;
}

namespace {

// One of an adapter's two parameters.
struct Half {
  std::string name, saved;  // its own name's ending, and peft's
  std::vector<int64_t> shape;
  bool transposed = false;  // in files
};

size_t add_half(Description& description, const std::string& module, const std::string& saved_module, Half half,
                uint32_t unit, int64_t tied_to) {
  ParameterInfo info;
  info.name = fmt::format("{}.{}", module, half.name);
  info.flags = kParameterAdapter;
  info.shape = half.shape;
  info.tied_to = tied_to;
  ParameterPart part;
  part.name = fmt::format("{}{}.{}", kAdapterPrefix, saved_module, half.saved);
  part.shape = std::move(half.shape);
  if (half.transposed) part.flags = LF_PART_TRANSPOSE;
  info.parts = {std::move(part)};
  description.parameters.push_back(std::move(info));
  description.parameter_unit.push_back(unit);
  return description.parameters.size() - 1;
}

// Where peft puts the adapter of a stack: a module with adapters on two parameters is wrapped twice, first for the one
// that is described first.
std::string wrapped_module(const std::vector<AdapterRequest>& requests, const Description& description, size_t stack) {
  const std::string module = split_name(class_parameter(description.parameters[stack])).first;
  for (const AdapterRequest& other : requests)
    if (other.parameter > stack && is_stack(description.parameters[other.parameter]) &&
        split_name(class_parameter(description.parameters[other.parameter])).first == module)
      return module + ".base_layer";
  return module;
}

Component& home_of(Description& description, size_t parameter) {
  return *std::find_if(description.components.begin(), description.components.end(), [&](const Component& c) {
    return parameter >= c.first_parameter && parameter < c.first_parameter + c.n_parameters;
  });
}

}  // namespace

void add_adapters(Description& description, const std::vector<AdapterRequest>& requests) {
  for (const AdapterRequest& request : with_tied(description, requests)) {
    const ParameterInfo map = description.parameters[request.parameter];
    const ParameterPart& part = map.parts[request.part];
    const uint32_t unit = description.parameter_unit[request.parameter];
    Adapter adapter{request.parameter, request.part, 0, 0, request.rank, request.alpha, request.dropout, {}, {}, -1};
    for (size_t i = 0; map.tied_to >= 0 && i < description.adapters.size(); ++i)
      if (description.adapters[i].parameter == static_cast<size_t>(map.tied_to))
        adapter.shares = static_cast<int64_t>(i);
    std::string own = module_name(part.name);
    Half down{"lora_A.weight", "lora_A.weight", {request.rank, map.shape[1]}};
    Half up{"lora_B.weight", "lora_B.weight", {part.shape[0], request.rank}};
    adapter.module = module_name(class_tensor(part));
    std::string saved = adapter.module;
    if (is_stack(map)) {
      const int64_t experts = map.shape[0];
      own = map.name;
      down.shape = {experts * request.rank, map.shape[1]};
      up.shape = {map.shape[2], request.rank * experts};
      std::tie(adapter.module, adapter.stack) = split_name(class_parameter(map));
      saved = wrapped_module(requests, description, request.parameter);
    } else if (is_table(map)) {
      down = {"lora_embedding_B", "lora_embedding_B", down.shape, true};
      up = {"lora_embedding_A", "lora_embedding_A", up.shape, true};
    }
    if (adapter.shares >= 0) {
      own = module_name(map.name);
      adapter.module = saved = module_name(class_parameter(map));
    }
    const Adapter* shared = adapter.shares < 0 ? nullptr : &description.adapters[static_cast<size_t>(adapter.shares)];
    const auto tied = [](size_t p) { return static_cast<int64_t>(p); };
    adapter.down = add_half(description, own, saved, down, unit, shared ? tied(shared->down) : -1);
    adapter.up = add_half(description, own, saved, up, unit, shared ? tied(shared->up) : -1);
    ParameterInfo& first = description.parameters[adapter.down];
    if (is_table(map)) {  // torch.nn.init.normal_, as peft has it
      first.init = LF_INIT_NORMAL;
      first.init_b = 1;
    } else {  // torch.nn.init.kaiming_uniform_(A, a = sqrt(5)), likewise
      first.init = LF_INIT_UNIFORM;
      first.init_b = 1 / std::sqrt(static_cast<double>(map.shape[1]));
      first.init_a = -first.init_b;
    }
    Component& home = home_of(description, request.parameter);
    home.adapters.push_back(adapter.down);
    home.adapters.push_back(adapter.up);
    description.adapters.push_back(std::move(adapter));
  }
}

void Model::adapt(const std::vector<AdapterRequest>& requests) {
  if (requests.empty()) return;
  if (!LF_HAS(api_, adapt))
    fail(Exit::kConfig, "lora: model plugin {} cannot give its maps adapters; remove [lora], or train it as it is",
         plugin_id_);
  std::vector<lf_adapter> adapters;
  for (const AdapterRequest& request : with_tied(description_, requests)) {
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
