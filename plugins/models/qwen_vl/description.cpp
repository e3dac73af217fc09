#include "qwen_vl/description.h"

#include <algorithm>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

lf_port make_port(lf_str name, int32_t rows, int32_t dtype, int64_t columns) {
  auto port = sdk::with_header<lf_port>();
  port.name = name;
  port.rows = rows;
  port.dtype = dtype;
  port.needs_grad = 1;
  port.columns = columns;
  return port;
}

template <typename T>
const T& at(const std::vector<T>& values, uint32_t index, const char* what) {
  if (index >= values.size())
    throw sdk::Failure(LF_E_INVALID, std::string("qwen_vl: there is no ") + what + " " + std::to_string(index));
  return values[index];
}

std::string nul_separated(std::initializer_list<const char*> names) {
  std::string result;
  for (const char* name : names) (result += name) += '\0';
  return result;
}

}  // namespace

lf_str Description::keep(const std::string& text) { return sdk::str(strings_.emplace_back(text)); }

Description::Table Description::describe(uint32_t component, const components::ParameterTable& table) {
  Table result;
  for (const components::ParameterSpec& spec : table) {
    auto param = sdk::with_header<lf_param>();
    param.name = keep(spec.name);
    param.unit = spec.unit;
    if (!spec.decays) param.flags |= LF_PARAM_NO_DECAY;
    if (spec.expert) param.flags |= LF_PARAM_EXPERT;
    param.n_parts = static_cast<uint32_t>(spec.parts.size());
    param.ndim = static_cast<int32_t>(spec.shape.size());
    std::copy(spec.shape.begin(), spec.shape.end(), param.shape);
    param.init = spec.init == components::Init::kZeros  ? LF_INIT_ZEROS
                 : spec.init == components::Init::kOnes ? LF_INIT_ONES
                                                        : LF_INIT_NORMAL;
    param.init_b = spec.deviation;
    param.tied_component = spec.tied_to ? static_cast<int32_t>(component) : -1;
    param.tied_param = spec.tied_to ? static_cast<int32_t>(*spec.tied_to) : -1;
    result.params.push_back(param);
    std::vector<lf_part>& parts = result.parts.emplace_back();
    for (const components::Part& piece : spec.parts) {
      auto part = sdk::with_header<lf_part>();
      part.name = keep(piece.name);
      part.flags = piece.copy ? LF_PART_COPY : 0;
      part.ndim = static_cast<int32_t>(piece.shape.size());
      std::copy(piece.shape.begin(), piece.shape.end(), part.shape);
      part.axis = static_cast<int32_t>(piece.axis);
      part.along = piece.along == components::Along::kTensor   ? LF_ALONG_TP
                   : piece.along == components::Along::kExpert ? LF_ALONG_EP
                                                               : LF_ALONG_NONE;
      part.piece = piece.piece;
      parts.push_back(part);
    }
  }
  return result;
}

Description::Description(const QwenVl& model) {
  tables_.push_back(describe(kVision, components::parameter_table(model.vision)));
  tables_.push_back(describe(kLanguage, components::parameter_table(model.language)));
  feature_names_ = {nul_separated({"rows", "frame_pairs", "window_pairs"}),
                    nul_separated({"rows", "loss_weight", "pairs"})};

  const auto add_component = [&](const char* name, int64_t units, int64_t quantum) {
    auto component = sdk::with_header<lf_component>();
    component.name = keep(name);
    component.n_units = static_cast<uint32_t>(units);
    component.n_params = static_cast<uint32_t>(tables_[components_.size()].params.size());
    const std::string& names = feature_names_[components_.size()];
    component.n_features = static_cast<uint32_t>(std::count(names.begin(), names.end(), '\0'));
    component.rows = LF_ROWS_TOKEN;
    component.row_quantum = quantum;
    components_.push_back(component);
  };
  add_component("vision", model.vision.n_units(), model.vision.merge * model.vision.merge);
  add_component("language", model.language.n_units(), 1);

  for (const FamilyEdge& e : model.edges) {
    auto edge = sdk::with_header<lf_edge>();
    edge.name = keep(e.name);
    edge.from = kVision;
    edge.to = kLanguage;
    edge.from_unit = e.from_unit;
    edge.to_unit = e.to_unit;
    edge.port = make_port(edge.name, LF_ROWS_TOKEN, 0, e.columns);
    edges_.push_back(edge);
  }
  boundaries_.push_back({make_port(keep("hidden"), LF_ROWS_TOKEN, 0, model.vision.width)});
  boundaries_.push_back({make_port(keep("hidden"), LF_ROWS_TOKEN, 0, model.language.width)});
  if (model.language.carries_statistics()) {
    boundaries_.back().push_back(
        make_port(keep("routing_statistics"), LF_ROWS_SAMPLE, LF_DTYPE_F32, 2 * model.language.experts.count));
    aux_names_ = nul_separated({"router_aux_loss"});
  }
  outputs_.push_back(make_port(keep("logits"), LF_ROWS_TOKEN, LF_DTYPE_F32, model.language.vocabulary));
  outputs_.push_back(make_port(keep("token_loss"), LF_ROWS_TOKEN, LF_DTYPE_F32, 1));
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
                       "qwen_vl: a component is cut between its units, not before unit " + std::to_string(before_unit));
  return boundaries_[component];
}

const std::string& Description::feature_names(uint32_t component) const {
  return at(feature_names_, component, "component");
}

}  // namespace lf::qwen_vl
