// What a family gives, in C++: a description, samples to columns, and blocks that run. entry.h makes the ABI's table of
// it, so that a family never writes a line about the border.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "family/columns.h"
#include "family/features.h"
#include "family/saved_file.h"
#include "lf/plugin_api/model.h"
#include "nn/chain.h"
#include "nn/parameter.h"

namespace lf::family {

struct PortSpec {
  std::string name;
  int64_t columns = 0;
  int32_t rows = LF_ROWS_TOKEN;
  int32_t dtype = 0;  // the stage's
};

struct ComponentSpec {
  std::string name;
  int64_t units = 0;
  components::ParameterTable parameters;
  std::vector<std::string> features;  // of an atom
  std::vector<PortSpec> boundary;     // what crosses a cut, the same before every unit
  int64_t row_quantum = 1;
  int32_t rows = LF_ROWS_TOKEN;
};

// Rows that a unit of one component gives to a unit of a later one; components by index.
struct EdgeSpec {
  std::string name;
  uint32_t from = 0, to = 0, from_unit = 0, to_unit = 0;
  int64_t columns = 0;
};

// What the class that opens the files (of transformers, diffusers) calls its modules where the files call them
// otherwise: names that begin with `in_files` begin with `in_class` there.
struct ClassPrefix {
  std::string in_files, in_class;
};

// Components in topological order; the last one carries the loss.
struct ModelSpec {
  std::vector<ComponentSpec> components;
  std::vector<EdgeSpec> edges;
  std::vector<PortSpec> outputs;
  std::vector<std::string> aux_names;
  std::vector<ClassPrefix> class_prefixes;  // the first that fits counts; empty: names are the same
};

// What the unit that ends the last component found.
struct StepResult {
  double loss_sum = 0, loss_weight = 0;
  std::array<double, 8> aux = {};
  nn::Tensors outputs;  // as ModelSpec.outputs; empty unless asked for
};

// A micro-batch on its way through some units. `result` is asked after forward; empty where the units do not end the
// last component.
struct Opened {
  std::vector<nn::Step> steps;
  std::function<StepResult()> result;
};

// Some units of one component, with their parameters.
class Blocks {
 public:
  virtual ~Blocks() = default;
  // unit counts from the first of these. Parameters in table order.
  virtual void bind(uint32_t unit, std::vector<nn::Parameter> parameters) = 0;
  // One step per unit; this outlives them. Throws sdk::Failure(LF_E_INVALID) for columns that are not as collate makes
  // them.
  virtual Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const = 0;
};

struct BlocksRequest {
  uint32_t component = 0, first_unit = 0, n_units = 0;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;  // of parameters and activations; a batch's columns are in host memory
};

// A model of a family. Everything but `blocks` may run on many threads at once.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  virtual Features features(const lf_sample& sample) const = 0;
  virtual Columns collate(std::span<const lf_sample* const> samples) const = 0;
  // atoms: n rows of the component's features.
  virtual lf_cost cost(uint32_t component, uint32_t unit, std::span<const double> atoms) const = 0;
  virtual std::unique_ptr<Blocks> blocks(const BlocksRequest& request) const = 0;
  // Of a family that offers lf.model_files/1: what is saved beside the trained weights, see plugin_api/model_files.h.
  virtual std::vector<SavedFile> saved_files() const { return {}; }
};

}  // namespace lf::family
