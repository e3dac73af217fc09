#include "optimizer/parameter_groups.h"

#include <string>
#include <utility>

#include "core/problems.h"
#include "model/patterns.h"

namespace lf {
namespace {

std::string useless_pattern(const Description& description, const Freezing& freezing, const std::string& place,
                            const std::string& pattern, const std::string& frozen) {
  if (!frozen.empty())
    return fmt::format("{}\"{}\" matches only what is not trained, such as {}; remove it, or train what it is about",
                       place, pattern, frozen);
  std::vector<std::string> names;
  for (const Component& component : description.components) names.push_back(component.name);
  for (size_t p = 0; p < description.parameters.size(); ++p)
    if (!freezing.frozen[p]) names.push_back(description.parameters[p].name);
  return fmt::format(
      "{}\"{}\" matches no parameter; it is a shell pattern over the names of components and parameters; near it are "
      "{}",
      place, pattern, near_names(pattern, names));
}

}  // namespace

std::vector<int> parameter_groups(const Description& description, const Freezing& freezing,
                                  const OptimizerSection& settings) {
  const size_t n = description.parameters.size();
  std::vector<const std::string*> component_of(n);
  for (const Component& component : description.components) {
    for (size_t k = 0; k < component.n_parameters; ++k) component_of[component.first_parameter + k] = &component.name;
    for (const size_t p : component.adapters) component_of[p] = &component.name;
  }
  std::vector<int> group_of(n, -1);
  Problems problems;
  for (size_t g = 0; g < settings.groups.size(); ++g) {
    const std::string place = fmt::format("optimizer.groups: table {}: ", g + 1);
    for (const std::string& pattern : settings.groups[g].parameters) {
      bool any = false, twice = false;
      std::string frozen;
      for (size_t p = 0; p < n; ++p) {
        const ParameterInfo& parameter = description.parameters[p];
        if (!matches(pattern, parameter.name) && !matches(pattern, *component_of[p])) continue;
        if (freezing.frozen[p] || parameter.tied_to >= 0) {
          if (frozen.empty()) frozen = parameter.name;
          continue;
        }
        any = true;
        if (group_of[p] < 0 || group_of[p] == static_cast<int>(g)) {
          group_of[p] = static_cast<int>(g);
        } else if (!std::exchange(twice, true)) {
          problems.add(Exit::kConfig,
                       fmt::format("{}\"{}\" matches {}, which table {} matches too; narrow the patterns of one of the "
                                   "two",
                                   place, pattern, parameter.name, group_of[p] + 1));
        }
      }
      if (!any) problems.add(Exit::kConfig, useless_pattern(description, freezing, place, pattern, frozen));
    }
  }
  problems.refuse_if_any();
  return group_of;
}

std::vector<OptimizedParameter> optimized_parameters(const ParameterStore& store, const std::vector<int>& groups,
                                                     const OptimizerSection& settings) {
  std::vector<OptimizedParameter> all;
  for (const ParameterSlot& slot : store.slots()) {
    if (!slot.trained) continue;
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    OptimizedParameter one{.name = parameter.name,
                           .offset = slot.offset,
                           .elements = slot.elements,
                           .unit = static_cast<uint32_t>(slot.unit),
                           .decay = settings.decay_all || (parameter.flags & LF_PARAM_NO_DECAY) == 0,
                           .learning_rate_scale = 1,
                           .sign_step = parameter.sign_step};
    if (const int g = groups[slot.parameter]; g >= 0) {
      const OptimizerGroup& group = settings.groups[static_cast<size_t>(g)];
      if (group.learning_rate) one.learning_rate_scale = *group.learning_rate / settings.learning_rate;
      one.weight_decay = group.weight_decay;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace lf
