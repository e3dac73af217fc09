// A model as its plugin describes it: the same on every rank, without device or layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lf/plugin_api/model.h"
#include "mesh/parameter.h"

namespace lf {

struct Component {
  std::string name;
  uint32_t n_units = 0;
  int32_t rows = LF_ROWS_TOKEN;
  std::vector<std::string> features;
  size_t first_parameter = 0, n_parameters = 0;  // its own, in Description::parameters
  std::vector<size_t> adapters = {};             // A and B of each adapter in it; units ascend
};

struct Edge {
  std::string name;
  uint32_t from = 0, to = 0, to_unit = 0;
  int64_t columns = 0;
};

// A tensor that the last stage returns on request.
struct Output {
  std::string name;
  int64_t columns = 0;
};

// A low-rank adapter of one part of a linear parameter, or of a stack of experts; parameters by index in
// Description::parameters.
struct Adapter {
  size_t parameter = 0;  // the map's
  uint32_t part = 0;
  size_t down = 0, up = 0;  // A and B, as lf_adapter has them
  int64_t rank = 0;
  double alpha = 0, dropout = 0;
  std::string module;   // what the class that opens the files calls the map; of experts, their module
  std::string stack;    // of experts: the parameter in that module
  int64_t shares = -1;  // of a parameter that is tied to an adapted one: the index of that one's adapter

  double scale() const { return alpha / static_cast<double>(rank); }
};

struct Description {
  std::vector<Component> components;
  // The model's own, of all components, in their order; units ascend within a component. Then those of adapters.
  std::vector<ParameterInfo> parameters;
  std::vector<uint32_t> parameter_unit;  // the unit within its component, by parameter
  std::vector<Edge> edges;
  std::vector<Output> outputs;
  std::vector<std::string> aux_names;
  std::vector<Adapter> adapters;

  const Component& last() const { return components.back(); }
  int64_t parameter_count() const;  // elements, adapters' among them; tied ones once
  // Without adapters: what model directories hold.
  std::vector<ParameterInfo> own_parameters() const;
};

int64_t element_count(const ParameterInfo& parameter);

// XXH3 of all that a description holds, in hex: ranks whose plugins describe a model otherwise in anything must not
// train it together.
std::string fingerprint(const Description& description);

// Asks the plugin for everything and checks that it makes sense (topological edges, units ascending, tied shapes
// equal). Throws kBug naming the plugin where it does not, kConfig where the plugin refused its configuration.
Description describe(const lf_model_api* api, lf_model model, const std::string& plugin_id);

struct AdapterRequest {
  size_t parameter = 0;  // LF_PARAM_LINEAR and not tied, by index in Description::parameters
  uint32_t part = 0;     // 0 of a stack of experts
  int64_t rank = 0;
  double alpha = 0, dropout = 0;
};

// One model of a plugin: created from the resolved job, destroyed with this object.
class Model {
 public:
  // config_json: see lf_model_api.create. Throws kConfig with the plugin's message.
  Model(const lf_model_api* api, const std::string& plugin_id, const lf_host* host, const std::string& config_json);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const lf_model_api* api() const { return api_; }
  lf_model handle() const { return model_; }
  const std::string& plugin_id() const { return plugin_id_; }
  const Description& description() const { return description_; }

  // Gives the model adapters, which its description then has. Once, before any stage is made. Throws kConfig where the
  // plugin cannot.
  void adapt(const std::vector<AdapterRequest>& requests);

  // Cost of one unit for `atoms` (row-major, n_features wide). Zeros where the plugin states none.
  lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const;
  // What the plugin keeps beside parameters, for checkpoints.
  std::string save_state() const;
  void load_state(const std::string& bytes) const;

 private:
  const lf_model_api* api_;
  std::string plugin_id_;
  lf_model model_ = nullptr;
  Description description_;
};

}  // namespace lf
