#include "family/description.h"

#include <algorithm>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

template <typename T>
const T& at(const std::vector<T>& values, uint32_t index, const char* what) {
  if (index >= values.size())
    throw sdk::Failure(LF_E_INVALID, std::string("there is no ") + what + " " + std::to_string(index));
  return values[index];
}

std::string nul_separated(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) (result += name) += '\0';
  return result;
}

// Empty where the class calls it as the files do.
std::string class_name(const std::string& name, const std::vector<ClassPrefix>& prefixes) {
  for (const ClassPrefix& prefix : prefixes)
    if (name.starts_with(prefix.in_files)) return prefix.in_class + name.substr(prefix.in_files.size());
  return "";
}

}  // namespace

lf_str Description::keep(const std::string& text) { return sdk::str(strings_.emplace_back(text)); }

lf_port Description::port(const PortSpec& spec) {
  auto port = sdk::with_header<lf_port>();
  port.name = keep(spec.name);
  port.rows = spec.rows;
  port.dtype = spec.dtype;
  port.needs_grad = 1;
  port.columns = spec.columns;
  return port;
}

Description::Table Description::describe(uint32_t component, const components::ParameterTable& table,
                                         const std::vector<ClassPrefix>& prefixes) {
  Table result;
  for (const components::ParameterSpec& spec : table) {
    auto param = sdk::with_header<lf_param>();
    param.name = keep(spec.name);
    param.unit = spec.unit;
    if (!spec.decays) param.flags |= LF_PARAM_NO_DECAY;
    if (spec.expert) param.flags |= LF_PARAM_EXPERT;
    if (spec.buffer) param.flags |= LF_PARAM_BUFFER;
    if (spec.dead) param.flags |= LF_PARAM_DEAD;
    if (spec.linear && !spec.buffer && !spec.dead) {
      param.flags |= LF_PARAM_LINEAR;
      if (spec.lookup) param.flags |= LF_PARAM_LOOKUP;
      if (spec.logits) param.flags |= LF_PARAM_LOGITS;
    }
    param.class_name = keep(class_name(spec.name, prefixes));
    param.sign_step = spec.sign_step;
    param.n_parts = static_cast<uint32_t>(spec.parts.size());
    param.join_axis = static_cast<int32_t>(spec.join_axis);
    param.ndim = static_cast<int32_t>(spec.shape.size());
    std::copy(spec.shape.begin(), spec.shape.end(), param.shape);
    param.init = spec.init == components::Init::kZeros  ? LF_INIT_ZEROS
                 : spec.init == components::Init::kOnes ? LF_INIT_ONES
                                                        : LF_INIT_NORMAL;
    param.init_a = spec.mean;
    param.init_b = spec.deviation;
    param.tied_component = spec.tied_to ? static_cast<int32_t>(component) : -1;
    param.tied_param = spec.tied_to ? static_cast<int32_t>(*spec.tied_to) : -1;
    result.params.push_back(param);
    std::vector<lf_part>& parts = result.parts.emplace_back();
    for (const components::Part& piece : spec.parts) {
      auto part = sdk::with_header<lf_part>();
      part.name = keep(piece.name);
      if (piece.copy) part.flags |= LF_PART_COPY;
      if (piece.transposed) part.flags |= LF_PART_TRANSPOSE;
      if (piece.stack > 0) part.flags |= LF_PART_STACK;
      part.stack = piece.stack;
      part.ndim = static_cast<int32_t>(piece.shape.size());
      std::copy(piece.shape.begin(), piece.shape.end(), part.shape);
      part.axis = static_cast<int32_t>(piece.axis);
      part.along = piece.along == components::Along::kTensor   ? LF_ALONG_TP
                   : piece.along == components::Along::kExpert ? LF_ALONG_EP
                                                               : LF_ALONG_NONE;
      part.piece = piece.piece;
      part.class_name = keep(class_name(piece.name, prefixes));
      parts.push_back(part);
    }
  }
  return result;
}

Description::Description(const ModelSpec& model) {
  for (uint32_t c = 0; c < model.components.size(); ++c) {
    const ComponentSpec& spec = model.components[c];
    tables_.push_back(describe(c, spec.parameters, model.class_prefixes));
    feature_names_.push_back(nul_separated(spec.features));
    auto component = sdk::with_header<lf_component>();
    component.name = keep(spec.name);
    component.n_units = static_cast<uint32_t>(spec.units);
    component.n_params = static_cast<uint32_t>(spec.parameters.size());
    component.n_features = static_cast<uint32_t>(spec.features.size());
    component.rows = spec.rows;
    component.row_quantum = spec.row_quantum;
    components_.push_back(component);
    std::vector<lf_port>& boundary = boundaries_.emplace_back();
    for (const PortSpec& crossing : spec.boundary) boundary.push_back(port(crossing));
  }
  for (const EdgeSpec& spec : model.edges) {
    auto edge = sdk::with_header<lf_edge>();
    edge.name = keep(spec.name);
    edge.from = spec.from;
    edge.to = spec.to;
    edge.from_unit = spec.from_unit;
    edge.to_unit = spec.to_unit;
    edge.port = port({spec.name, spec.columns});
    edges_.push_back(edge);
  }
  for (const PortSpec& output : model.outputs) outputs_.push_back(port(output));
  aux_names_ = nul_separated(model.aux_names);
}

const lf_param& Description::param(uint32_t component, uint32_t index) const {
  return at(at(tables_, component, "component").params, index, "parameter");
}

const lf_part& Description::part(uint32_t component, uint32_t index, uint32_t part) const {
  return at(at(at(tables_, component, "component").parts, index, "parameter"), part, "part");
}

std::vector<lf_port> Description::boundary(uint32_t component, uint32_t before_unit) const {
  if (before_unit == 0 || before_unit >= at(components_, component, "component").n_units)
    throw sdk::Failure(LF_E_INVALID,
                       "a component is cut between its units, not before unit " + std::to_string(before_unit));
  return boundaries_[component];
}

const std::string& Description::feature_names(uint32_t component) const {
  return at(feature_names_, component, "component");
}

}  // namespace lf::family
