// Drives a model plugin through the ABI as the runtime does: parameters in buffers of the test, stages, micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lf/plugin_api/entry.h"
#include "lf/plugin_api/model.h"
#include "plugins/models/qwen_vl/columns.h"

namespace lf::test {

struct UnitEvent {
  uint32_t component, unit;
  int32_t what;
  friend bool operator==(const UnitEvent&, const UnitEvent&) = default;
};

// One parameter of the model, its values and its gradient in f32 (gradients stay f32 also where values are bf16).
struct TestParameter {
  lf_param description;
  std::string name;
  std::vector<lf_part> parts;
  std::vector<float> values, gradient;
  std::vector<uint16_t> values_bf16;
  bool frozen = false;
  bool touched = false;  // a unit that owns it reported its weights done
  int64_t tied = -1;
};

struct ModelOptions {
  std::string options_json = "{}";  // [model.options]
  int32_t dtype = LF_DTYPE_F32;
  int32_t recompute = LF_RECOMPUTE_NONE;
  std::map<uint32_t, std::vector<uint32_t>> cuts;  // component -> units before which it is cut
  std::function<bool(const std::string& name)> frozen = [](const std::string&) { return false; };
  bool scale_ahead = true;  // tell forward the loss scale
};

struct StepResult {
  double loss_sum = 0, loss_weight = 0, aux = 0;
  std::vector<std::vector<float>> outputs;  // in the model's order, empty where one is absent
  std::vector<float> logits, token_loss;    // the first two
};

// What collate made; released with it.
struct Collated {
  std::vector<lf_named_tensor> columns;
  std::vector<uint32_t> atoms;                // by component
  std::vector<std::vector<double>> features;  // by component
  Collated() = default;
  Collated(Collated&&) = default;
  ~Collated();
};

class AbiModel {
 public:
  // Opens the plugin file once more (the loader gives the same copy). Throws std::runtime_error with the plugin's
  // message.
  AbiModel(const std::string& plugin, const std::string& config_json, const ModelOptions& options);
  ~AbiModel();
  AbiModel(const AbiModel&) = delete;
  AbiModel& operator=(const AbiModel&) = delete;

  // Sets every parameter's parts from file tensors of those names. Throws where one is missing or is of another shape.
  void load(const std::map<std::string, FileTensor>& tensors);
  void zero_gradients();
  // Forward, and backward where loss_scale != 0.
  StepResult run(const Columns& columns, double loss_scale, bool outputs = false);
  StepResult run(const Collated& batch, double loss_scale, bool outputs = false);
  // Throws std::runtime_error with the plugin's message.
  Collated collate(std::span<const lf_named_tensor> fields) const;

  // Gradients by the names of files: joined parameters are taken apart. Tied and frozen ones excluded.
  std::map<std::string, std::vector<float>> gradients() const;
  // Of parameters whose unit did not run.
  std::vector<std::string> without_gradient() const;

  const std::vector<UnitEvent>& events() const { return events_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  std::vector<std::vector<TestParameter>>& parameters() { return parameters_; }
  const lf_model_api* api() const { return api_; }
  lf_model handle() const { return model_; }

 private:
  struct Stage {
    uint32_t component, first_unit, n_units;
    lf_stage handle = nullptr;
    bool no_grad = false;
    std::vector<size_t> in, out;  // edges
    size_t boundary_in = 0, boundary_out = 0;
  };
  void describe();
  void build();
  void bind(const Stage& stage);
  StepResult run(std::span<const lf_named_tensor> columns, uint32_t n_samples, const std::vector<bool>& has_atoms,
                 double loss_scale, bool outputs);

  ModelOptions options_;
  lf_host host_{};
  lf_parallel_host parallel_{};
  const lf_model_api* api_ = nullptr;
  lf_model model_ = nullptr;
  std::vector<lf_component> components_;
  std::vector<lf_edge> edges_;
  std::vector<std::vector<TestParameter>> parameters_;
  std::vector<Stage> stages_;
  std::vector<UnitEvent> events_;
  std::vector<std::string> warnings_;
  uint64_t next_micro_batch_ = 0;
};

}  // namespace lf::test
