#include "model/selection.h"

#include "model/patterns.h"

namespace lf {

std::vector<size_t> selected_parameters(const Description& description, const std::string& pattern) {
  std::vector<size_t> found;
  for (const Component& component : description.components) {
    const bool whole = matches(pattern, component.name);
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p)
      if (whole || matches(pattern, description.parameters[p].name)) found.push_back(p);
  }
  return found;
}

std::string near_own_names(const Description& description, const std::string& pattern) {
  std::vector<std::string> names;
  for (const Component& component : description.components) names.push_back(component.name);
  for (const ParameterInfo& parameter : description.own_parameters()) names.push_back(parameter.name);
  return near_names(pattern, names);
}

}  // namespace lf
