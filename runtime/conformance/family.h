// A model plugin driven as the runtime drives it: described, built into stages, bound to buffers, run on micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "conformance/bench.h"
#include "lf/plugin_api/model.h"

namespace lf::kit {

using Api = lf_model_api;

// The case folder of the kit's options. Skips the case where none was given.
struct FamilyCase {
  std::string create_json;                   // for lf_model_api.create
  std::vector<std::string> samples;          // canonical JSON, one each
  uint64_t id_of(const std::string&) const;  // the sample's place among them, in whatever order they are asked for
};
FamilyCase read_case(const KitOptions& options);

struct Parameter {
  lf_param description;
  std::string name;
  std::vector<lf_part> parts;
  std::vector<float> values, gradient;
  bool frozen = false;
  bool done = false;            // its unit said that its weights are done
  int64_t tied = -1;            // index in the table of description.tied_component
  size_t index = 0, owner = 0;  // among all parameters; owner: of whom the values are
};

struct StageOptions {
  int32_t recompute = LF_RECOMPUTE_NONE;
  std::map<uint32_t, uint32_t> cuts = {};  // component -> the unit before which it is cut
  std::function<bool(const Parameter&)> frozen = {};
};

struct UnitEvent {
  lf_stage stage;
  uint32_t unit;
  int32_t what;
  uint64_t micro_batch;
};

struct StepSums {
  double loss = 0, weight = 0;
};

// The columns of one micro-batch, released at the end.
class Columns {
 public:
  Columns() = default;
  Columns(Columns&& other) noexcept {
    std::swap(tensors, other.tensors);
    std::swap(atoms, other.atoms);
    std::swap(totals, other.totals);
    std::swap(samples, other.samples);
  }
  Columns& operator=(Columns&&) = delete;
  ~Columns();
  std::vector<lf_named_tensor> tensors;
  std::vector<uint32_t> atoms;  // by component
  std::vector<double> totals;   // of the last component's features
  uint32_t samples = 0;
};

class Family {
 public:
  // Starts the plugin; creates and describes the model of the case.
  explicit Family(Bench& bench);
  ~Family();
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  template <auto kMember, typename... Args>
  Answer ask(Args... args) {
    return bench.ask<kMember>(api, args...);
  }
  template <auto kMember>
  bool has() const {
    return bench.has<kMember>(api);
  }

  // By component, atom and feature; `atoms` by component.
  struct Features {
    std::vector<uint32_t> atoms;
    std::vector<std::vector<double>> numbers;
  };
  Features features(const std::string& json, int64_t max_rows = 0);
  Columns collate(const std::vector<std::string>& samples, int64_t max_rows = 0);

  void build(const StageOptions& options = {});  // stages, values drawn as the description says, gradients of zero
  void zero_gradients();
  // Forward, and backward where loss_scale is not 0. `step`: what lf_batch.totals are of, where the step has more
  // micro-batches than this one.
  StepSums run(const Columns& columns, double loss_scale, const Columns* step = nullptr);

  Bench& bench;
  const Api* api = nullptr;
  lf_model model = nullptr;
  FamilyCase the_case;
  std::vector<lf_component> components;
  std::vector<lf_edge> edges;
  std::vector<std::vector<Parameter>> parameters;  // by component
  std::vector<UnitEvent> events;
  Parameter& owner(Parameter& parameter);  // of the values: itself, or what it is tied to

 private:
  struct Stage {
    uint32_t component, first, units;
    lf_stage handle = nullptr;
    bool no_grad = false;
    std::vector<size_t> in, out;  // edges
    uint32_t border_in = 0, border_out = 0;
  };
  void describe();
  void draw_values();
  void add_stage(uint32_t component, uint32_t first, uint32_t end, const StageOptions& options, bool no_grad);
  void bind(Stage& stage);
  void free_stages();
  uint32_t border(uint32_t component, uint32_t unit);

  std::vector<Stage> stages_;
  uint64_t next_micro_batch_ = 1;
};

int64_t elements(const lf_param& param);
double norm(const std::vector<float>& values);

}  // namespace lf::kit
