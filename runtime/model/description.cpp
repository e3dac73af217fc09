#include "model/description.h"

#include <cstddef>
#include <cstring>
#include <numeric>

#include <fmt/ranges.h>

#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

Exit exit_of(int32_t code) {
  switch (code) {
    case LF_E_INVALID:
    case LF_E_UNSUPPORTED:
      return Exit::kConfig;
    case LF_E_DATA:
      return Exit::kBadData;
    default:
      return Exit::kBug;
  }
}

constexpr double kMostElements = 0x1p56;
constexpr uint32_t kMostParts = 1 << 20;  // of one component: far beyond any model, and described in seconds

class Reader {
 public:
  Reader(const lf_model_api* api, lf_model model, const std::string& id) : api_(api), model_(model), id_(id) {}

  Description read() {
    Description description;
    std::vector<lf_component> raw = list<lf_component>(api_->components, "components");
    if (raw.empty()) wrong("describes no component");
    for (const lf_component& component : raw)
      if (component.n_params > kMostParts || component.n_units > kMostParts)
        fail(Exit::kConfig,
             "model plugin {}: component {} has {} parameters in {} units, at most {} are taken; check the sizes in "
             "config.json",
             id_, sdk::view(component.name), component.n_params, component.n_units, kMostParts);
    std::vector<size_t> first(raw.size(), 0);  // parameter of each component: what ties refer to
    for (size_t c = 1; c < raw.size(); ++c) first[c] = first[c - 1] + raw[c - 1].n_params;
    for (uint32_t c = 0; c < raw.size(); ++c) add_component(c, raw[c], first, description);
    try {
      check_parameters(description.parameters);
    } catch (const Error& error) {
      wrong(error.what());
    }
    if (LF_HAS(api_, edges))
      for (const lf_edge& edge : list<lf_edge>(api_->edges, "edges")) {
        if (edge.from >= edge.to || edge.to >= raw.size() || edge.to_unit >= raw[edge.to].n_units)
          wrong(fmt::format("edge {} does not lead to a later component", sdk::view(edge.name)));
        description.edges.push_back(
            Edge{std::string(sdk::view(edge.name)), edge.from, edge.to, edge.to_unit, edge.port.columns});
      }
    if (LF_HAS(api_, outputs))
      for (const lf_port& port : list<lf_port>(api_->outputs, "outputs"))
        description.outputs.push_back(Output{std::string(sdk::view(port.name)), port.columns});
    if (LF_HAS(api_, aux_names))
      description.aux_names = names([&](lf_sink sink, lf_err* err) { return api_->aux_names(model_, sink, err); });
    return description;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    fail(Exit::kBug, "model plugin {}: {}; `lfrun plugins verify` says more", id_, what);
  }
  void require(int32_t code, const lf_err& err, const char* what) const {
    if (code != LF_OK) fail(exit_of(code), "model plugin {}: {}: {}", id_, what, err.message);
  }

  template <typename T, typename Function>
  std::vector<T> list(Function function, const char* what) const {
    lf_err err = sdk::make_err();
    uint32_t n = 0;
    require(function(model_, nullptr, 0, &n, &err), err, what);
    std::vector<T> items(n, sdk::with_header<T>());
    require(function(model_, items.data(), n, &n, &err), err, what);
    if (n != items.size()) wrong(fmt::format("{} changed between two calls", what));
    return items;
  }

  template <typename Function>
  std::vector<std::string> names(Function function) const {
    std::string text;
    lf_err err = sdk::make_err();
    require(function(sdk::string_sink(text), &err), err, "names");
    std::vector<std::string> found;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\0', at);
      if (end == text.npos) wrong("a list of names does not end with a NUL");
      found.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return found;
  }

  void add_component(uint32_t c, const lf_component& raw, const std::vector<size_t>& first, Description& description) {
    Component component;
    component.name = sdk::view(raw.name);
    component.n_units = raw.n_units;
    component.rows = raw.rows;
    component.first_parameter = first[c];
    component.n_parameters = raw.n_params;
    component.features = names([&](lf_sink sink, lf_err* err) { return api_->feature_names(model_, c, sink, err); });
    if (component.features.size() != raw.n_features || component.features.empty())
      wrong(fmt::format("component {} states {} features and names {}", component.name, raw.n_features,
                        component.features.size()));
    uint32_t unit = 0;
    for (uint32_t i = 0; i < raw.n_params; ++i) {
      lf_err err = sdk::make_err();
      auto parameter = sdk::with_header<lf_param>();
      require(api_->param(model_, c, i, &parameter, &err), err, "param");
      if (parameter.unit < unit || parameter.unit >= raw.n_units)
        wrong(fmt::format("parameter {} is out of the order of units", sdk::view(parameter.name)));
      unit = parameter.unit;
      description.parameters.push_back(parameter_info(c, i, parameter, first));
      description.parameter_unit.push_back(unit);
    }
    description.components.push_back(std::move(component));
  }

  // Bytes of all that a run holds are added up in 64 bits.
  void count_elements(const ParameterInfo& info) {
    double elements = 1;
    for (const int64_t size : info.shape) elements *= static_cast<double>(size);
    elements_ += elements;
    if (elements_ > kMostElements)
      fail(Exit::kConfig,
           "model plugin {}: expected sizes of a model that memory can hold, got {:.3g} elements with parameter {} of "
           "[{}]; look at the sizes in config.json",
           id_, elements_, info.name, fmt::join(info.shape, ", "));
  }

  ParameterInfo parameter_info(uint32_t c, uint32_t i, const lf_param& raw, const std::vector<size_t>& first) {
    ParameterInfo info;
    info.name = sdk::view(raw.name);
    if (raw.ndim < 0 || raw.ndim > LF_MAX_DIMS)
      wrong(fmt::format("parameter {} has {} dimensions", info.name, raw.ndim));
    info.shape.assign(raw.shape, raw.shape + raw.ndim);
    count_elements(info);
    info.flags = raw.flags;
    info.join_axis = raw.join_axis;
    info.init = raw.init;
    info.init_a = raw.init_a;
    info.init_b = raw.init_b;
    info.sign_step = raw.sign_step;  // 0 where the plugin is older than it
    info.class_name = sdk::view(raw.class_name);
    if (raw.tied_param >= 0) {
      if (raw.tied_component < 0 || static_cast<uint32_t>(raw.tied_component) > c)
        wrong(fmt::format("parameter {} is tied to one that does not come before it", info.name));
      info.tied_to = static_cast<int64_t>(first[raw.tied_component]) + raw.tied_param;
    }
    for (uint32_t k = 0; k < raw.n_parts; ++k) {
      lf_err err = sdk::make_err();
      auto part = sdk::with_header<lf_part>();
      require(api_->part(model_, c, i, k, &part, &err), err, "part");
      ParameterPart made;
      made.name = sdk::view(part.name);
      made.flags = part.flags;
      if (part.ndim < 0 || part.ndim > LF_MAX_DIMS)
        wrong(fmt::format("part {} has {} dimensions", made.name, part.ndim));
      made.shape.assign(part.shape, part.shape + part.ndim);
      made.axis = part.axis;
      made.along = part.along;
      made.piece = part.piece;
      made.stack = part.stack;
      made.class_name = sdk::view(part.class_name);  // empty where the plugin is older than it
      info.parts.push_back(std::move(made));
    }
    return info;
  }

  const lf_model_api* api_;
  lf_model model_;
  const std::string& id_;
  double elements_ = 0;
};

void require_functions(const lf_model_api* api, const std::string& id) {
  std::vector<const char*> missing;
#define LF_REQUIRE(member) \
  if (!LF_HAS(api, member)) missing.push_back(#member)
  LF_REQUIRE(create);
  LF_REQUIRE(destroy);
  LF_REQUIRE(components);
  LF_REQUIRE(param);
  LF_REQUIRE(part);
  LF_REQUIRE(feature_names);
  LF_REQUIRE(features);
  LF_REQUIRE(collate);
  LF_REQUIRE(stage_new);
  LF_REQUIRE(stage_free);
  LF_REQUIRE(bind);
  LF_REQUIRE(forward);
  LF_REQUIRE(backward);
  LF_REQUIRE(drop);
#undef LF_REQUIRE
  if (!missing.empty())
    fail(Exit::kConfig, "model plugin {}: its lf.model/1 table lacks {}", id, fmt::join(missing, ", "));
}

// An lf_err with room for many lines behind its own message.
class LongError {
 public:
  LongError() : bytes_(kBytes / sizeof(std::max_align_t)) { err()->size = kBytes; }
  lf_err* err() { return reinterpret_cast<lf_err*>(bytes_.data()); }
  std::string text() const {
    const char* message = reinterpret_cast<const char*>(bytes_.data()) + offsetof(lf_err, message);
    return {message, strnlen(message, kBytes - offsetof(lf_err, message))};
  }

 private:
  static constexpr uint32_t kBytes = 1 << 16;
  std::vector<std::max_align_t> bytes_;
};

}  // namespace

int64_t element_count(const ParameterInfo& parameter) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Description::parameter_count() const {
  int64_t n = 0;
  for (const ParameterInfo& parameter : parameters)
    if (parameter.tied_to < 0) n += element_count(parameter);
  return n;
}

std::vector<ParameterInfo> Description::own_parameters() const {
  return {parameters.begin(), parameters.end() - static_cast<std::ptrdiff_t>(2 * adapters.size())};
}

Description describe(const lf_model_api* api, lf_model model, const std::string& plugin_id) {
  return Reader(api, model, plugin_id).read();
}

Model::Model(const lf_model_api* api, const std::string& plugin_id, const lf_host* host, const std::string& config_json)
    : api_(api), plugin_id_(plugin_id) {
  require_functions(api, plugin_id);
  LongError said;
  if (const int32_t code = api_->create(host, sdk::str(config_json), &model_, said.err()); code != LF_OK)
    throw Error(exit_of(code), said.text());
  lf_err err = sdk::make_err();
  try {
    description_ = describe(api_, model_, plugin_id_);
  } catch (...) {
    api_->destroy(model_, &err);
    throw;
  }
}

Model::~Model() {
  lf_err err = sdk::make_err();
  api_->destroy(model_, &err);
}

lf_cost Model::cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const {
  auto cost = sdk::with_header<lf_cost>();
  if (!LF_HAS(api_, cost)) return cost;
  lf_err err = sdk::make_err();
  const size_t width = description_.components[component].features.size();
  if (const int32_t code = api_->cost(model_, component, unit, atoms.data(), atoms.size() / width, &cost, &err);
      code != LF_OK)
    fail(Exit::kBug, "model plugin {}: cost: {}", plugin_id_, err.message);
  return cost;
}

std::string Model::save_state() const {
  std::string bytes;
  if (!LF_HAS(api_, state_save)) return bytes;
  lf_err err = sdk::make_err();
  if (api_->state_save(model_, sdk::string_sink(bytes), &err) != LF_OK)
    fail(Exit::kBug, "model plugin {}: state_save: {}", plugin_id_, err.message);
  return bytes;
}

void Model::load_state(const std::string& bytes) const {
  if (bytes.empty()) return;
  if (!LF_HAS(api_, state_load))
    fail(Exit::kConfig, "the checkpoint holds state of model plugin {}, which this version of it cannot load",
         plugin_id_);
  lf_err err = sdk::make_err();
  if (api_->state_load(model_, bytes.data(), bytes.size(), &err) != LF_OK)
    fail(Exit::kBadData, "model plugin {}: state_load: {}", plugin_id_, err.message);
}

}  // namespace lf
