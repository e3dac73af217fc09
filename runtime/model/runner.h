// Running a model: its components as stages on this rank, one micro-batch at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/host.h"
#include "lf/plugin_api/parallel.h"
#include "load/load.h"
#include "model/description.h"
#include "model/host_copies.h"
#include "model/parameter_store.h"
#include "plugins/model_on_device.h"

namespace lf {

// The host's half of lf.parallel/1 with groups of one: collectives are copies, and units report to `on_unit`.
class ParallelHost {
 public:
  // Adds the extension to the host. Outlives every plugin.
  explicit ParallelHost(Host& host);
  ParallelHost(const ParallelHost&) = delete;
  ParallelHost& operator=(const ParallelHost&) = delete;

  struct Stage {
    uint32_t component = 0, first_unit = 0;
  };
  // [step] for all of them.
  void know(lf_stage stage, Stage what) { stages_[stage] = what; }
  void forget(lf_stage stage) { stages_.erase(stage); }
  std::function<void(uint32_t component, uint32_t unit, int32_t what, uint64_t micro_batch)> on_unit;

 private:
  friend struct ParallelTable;
  std::map<lf_stage, Stage> stages_;
};

struct RunOptions {
  bool backward = true;
  bool outputs = false;
  double loss_scale = 1;                // gradients are of loss_scale times the loss sum
  std::span<const double> totals = {};  // features of the last component, summed over the step; empty: not known
  uint64_t seed = 0, step = 0;          // of the job: with the batch's samples, what dropout is drawn from
};

struct RunResult {
  double loss_sum = 0, loss_weight = 0;
  std::vector<double> aux;               // by Description::aux_names
  std::vector<lf_named_tensor> outputs;  // if asked, in host memory; to be released; names live as long as the model
};

// Built once; forward and backward of a micro-batch add to the store's gradients. Which units ran backward since
// begin_step is kept: the parameters of the others have no gradient.
class Runner {
 public:
  // recompute: LF_RECOMPUTE_... for every unit of every component. With ModelPlace::kHost the model is lent copies in
  // the host's memory, see host_copies.h.
  Runner(const Model& model, const ParameterStore& store, const Freezing& freezing, ParallelHost& parallel,
         const Device& device, ModelPlace place, int recompute);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Forgets which units had gradients. The store's values may have changed since the step before, and not later.
  void begin_step();
  // Throws lf::Error with the plugin's message; the micro-batch is dropped then.
  RunResult run(const MicroBatch& batch, uint64_t micro_batch, const RunOptions& options);
  // By ParameterStore::unit_index.
  const std::vector<uint8_t>& units_with_gradient() const { return touched_; }
  // Calls by pass and component that the host computed for the device: "forward of vision".
  const std::map<std::string, uint64_t>& passes_on_host() const { return passes_on_host_; }

  // Called when a unit has added this micro-batch to its gradients.
  std::function<void(size_t unit_index, uint64_t micro_batch)> on_unit_done;

 private:
  struct Stage {
    lf_stage handle = nullptr;
    bool no_grad = false;
    bool told_units = false;        // this micro-batch
    std::vector<size_t> in, out;    // edges
    std::string forward, backward;  // what messages and profiles call its passes
  };
  void build(uint32_t component, const Device& device, int recompute);
  void bind(uint32_t component);
  void drop(uint64_t micro_batch, size_t stages);
  void unit_done(size_t unit_index, uint64_t micro_batch);
  CallWatch* begin_pass(const std::string& pass);  // who watches it

  [[noreturn]] void fail_pass(const char* what, const std::string& component, const lf_err& err) const;

  const Model& model_;
  const ParameterStore& store_;
  const Device& device_;
  const Freezing& freezing_;
  ParallelHost& parallel_;
  std::optional<HostCopies> copies_;  // the model computes in the host's memory, which the device's is not
  std::map<std::string, uint64_t> passes_on_host_;
  std::vector<Stage> stages_;
  std::vector<uint8_t> touched_;
};

}  // namespace lf
