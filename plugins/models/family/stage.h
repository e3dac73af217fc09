// A stage of a model behind the ABI: bound parameters, and the micro-batches that are open.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "family/adapters.h"
#include "family/model.h"
#include "lf/plugin_api/model.h"
#include "nn/adapter.h"
#include "nn/chain.h"

namespace lf::family {

// What stages of one model know of each other: which components' stages here train nothing, here or before them.
struct ModelState {
  std::vector<bool> no_grad;  // by component
  AdapterTable adapters;
};

class Stage {
 public:
  // `model`, `state` and `host` outlive the stage. Throws sdk::Failure(LF_E_UNSUPPORTED) for groups, devices and dtypes
  // that are not offered.
  Stage(const Model& model, ModelState& state, const lf_host* host, const lf_stage_config& config);

  void bind(uint32_t unit, std::span<const lf_tensor> values, std::span<const lf_tensor> grads);
  void forward(const lf_batch& batch, std::span<const lf_tensor> in, std::span<lf_tensor> out, lf_step_out* step_out,
               lf_stream stream);
  void backward(uint64_t micro_batch, int32_t what, std::span<const lf_tensor> gout, std::span<lf_tensor> gin,
                double loss_scale, lf_stream stream);
  void drop(uint64_t micro_batch) { open_.erase(micro_batch); }

 private:
  struct Open {
    std::unique_ptr<nn::Chain> chain;
    size_t n_out = 0;  // tensors of the chain's end
    uint64_t draw_key = 0;
  };
  bool begins() const { return first_unit_ == 0; }
  bool ends() const { return first_unit_ + n_units_ == n_units_of_component_; }
  bool has_loss() const { return ends() && component_ + 1 == spec_.components.size(); }
  size_t carried_in() const { return begins() ? 0 : n_boundary_; }
  size_t carried_out() const { return ends() ? 0 : n_boundary_; }
  std::vector<size_t> leaving_order() const;  // chain's leaving edge -> place among edges_out_
  nn::Parameter bound(uint32_t unit, size_t index, const lf_tensor& value, const lf_tensor& gradient) const;
  void notify(uint32_t unit, nn::UnitEvent event, uint64_t micro_batch, lf_stream stream);

  const ModelSpec& spec_;
  ModelState& state_;
  const lf_host* host_;
  const lf_parallel_host* parallel_;
  uint32_t component_, first_unit_, n_units_, n_units_of_component_ = 0;
  size_t n_boundary_ = 0;
  bool no_grad_;
  at::ScalarType dtype_;
  uint64_t device_uid_;
  at::Device device_;
  std::vector<nn::Recompute> recompute_;
  std::vector<size_t> edges_in_, edges_out_;  // of the table: entering, by unit; leaving, by unit
  std::unique_ptr<Blocks> blocks_;
  std::map<uint64_t, Open> open_;
  lf_stream stream_ = nullptr;                                        // of the call in progress
  std::shared_ptr<nn::Draws> draws_ = std::make_shared<nn::Draws>();  // likewise
};

}  // namespace lf::family
