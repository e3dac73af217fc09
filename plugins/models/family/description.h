// A family's description in the ABI's terms: strings and arrays that live as long as the model.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "family/model.h"
#include "lf/plugin_api/model.h"

namespace lf::family {

class Description {
 public:
  explicit Description(const ModelSpec& model);
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  const std::vector<lf_component>& components() const { return components_; }
  const std::vector<lf_edge>& edges() const { return edges_; }
  const std::vector<lf_port>& outputs() const { return outputs_; }
  // Throw sdk::Failure(LF_E_INVALID) for an index out of range.
  const lf_param& param(uint32_t component, uint32_t index) const;
  const lf_part& part(uint32_t component, uint32_t index, uint32_t part) const;
  // What crosses a cut before a unit, 0 < unit < n_units.
  std::vector<lf_port> boundary(uint32_t component, uint32_t before_unit) const;
  const std::string& aux_names() const { return aux_names_; }  // NUL-separated
  const std::string& feature_names(uint32_t component) const;  // NUL-separated

 private:
  struct Table {
    std::vector<lf_param> params;
    std::vector<std::vector<lf_part>> parts;
  };
  lf_str keep(const std::string& text);
  lf_port port(const PortSpec& spec);
  Table describe(uint32_t component, const components::ParameterTable& table, const std::vector<ClassPrefix>& prefixes);

  std::deque<std::string> strings_;
  std::vector<lf_component> components_;
  std::vector<lf_edge> edges_;
  std::vector<lf_port> outputs_;
  std::vector<std::vector<lf_port>> boundaries_;  // by component
  std::vector<Table> tables_;
  std::vector<std::string> feature_names_;
  std::string aux_names_;
};

}  // namespace lf::family
