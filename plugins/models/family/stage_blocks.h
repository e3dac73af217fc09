// What blocks over a component's stage have in common. What is left to each is to make a batch of columns.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/TensorBody.h>

#include "family/model.h"
#include "nn/parallel.h"

namespace lf::family {

template <typename Config, typename Stage>
class StageBlocks : public Blocks {
 public:
  StageBlocks(const Config& config, const BlocksRequest& request)
      : config_(config),
        begins_(request.first_unit == 0),
        options_(at::TensorOptions().dtype(request.dtype).device(request.device)),
        stage_(config, request.first_unit, request.n_units, nn::ParallelContext{}) {}

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters) final { stage_.bind(unit, std::move(parameters)); }

 protected:
  const Config& config() const { return config_; }
  bool begins() const { return begins_; }                        // with the component's first unit
  const at::TensorOptions& options() const { return options_; }  // of activations
  at::Device device() const { return options_.device(); }
  const Stage& stage() const { return stage_; }

 private:
  Config config_;
  bool begins_;
  at::TensorOptions options_;
  Stage stage_;
};

// A vision tower as a component: its units, parameters and features.
template <typename Config>
ComponentSpec tower_component(const Config& config) {
  ComponentSpec spec;
  spec.name = "vision";
  spec.units = config.n_units();
  spec.parameters = parameter_table(config);
  spec.features = {"rows", "frame_pairs", "window_pairs"};
  spec.boundary = {{"hidden", config.width}};
  spec.row_quantum = config.merge * config.merge;
  return spec;
}

}  // namespace lf::family
