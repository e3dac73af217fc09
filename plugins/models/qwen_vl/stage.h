// A stage of a Qwen-VL model behind the ABI: bound parameters, and the micro-batches that are open.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "lf/plugin_api/model.h"
#include "nn/chain.h"
#include "qwen_vl/family.h"

namespace lf::qwen_vl {

// What stages of one model know of each other: whether a component's stages here train nothing, here or before them.
struct ModelState {
  std::array<bool, 2> no_grad = {false, false};
};

class Stage {
 public:
  // `model`, `state` and `host` outlive the stage. Throws sdk::Failure(LF_E_UNSUPPORTED) for groups, devices and dtypes
  // that are not offered.
  Stage(const QwenVl& model, ModelState& state, const lf_host* host, const lf_stage_config& config);

  void bind(uint32_t unit, std::span<const lf_tensor> values, std::span<const lf_tensor> grads);
  void forward(const lf_batch& batch, std::span<const lf_tensor> in, std::span<lf_tensor> out, lf_step_out* step_out,
               lf_stream stream);
  void backward(uint64_t micro_batch, int32_t what, std::span<const lf_tensor> gout, std::span<lf_tensor> gin,
                double loss_scale, lf_stream stream);
  void drop(uint64_t micro_batch) { open_.erase(micro_batch); }

 private:
  struct Open {
    std::unique_ptr<nn::Chain> chain;
    std::shared_ptr<components::DecoderResult> result;  // language only
    size_t n_out = 0;                                   // tensors of the chain's end
  };
  bool begins() const { return first_unit_ == 0; }
  bool ends() const;
  size_t n_boundary() const;
  std::vector<size_t> leaving_order() const;  // chain's leaving edge -> place among edges_out_
  std::vector<nn::Step> vision_steps(const lf_batch& batch) const;
  std::vector<nn::Step> language_steps(const lf_batch& batch, Open& open) const;
  void notify(uint32_t unit, nn::UnitEvent event, uint64_t micro_batch, lf_stream stream);

  const QwenVl& model_;
  ModelState& state_;
  const lf_host* host_;
  const lf_parallel_host* parallel_;
  uint32_t component_, first_unit_, n_units_;
  bool no_grad_;
  at::ScalarType dtype_;
  std::vector<nn::Recompute> recompute_;
  std::vector<size_t> edges_in_, edges_out_;  // of the table: entering, by unit; leaving, by unit
  std::variant<std::monostate, components::VisionStage, components::LanguageStage> blocks_;
  std::map<uint64_t, Open> open_;
  lf_stream stream_ = nullptr;  // of the call in progress
};

}  // namespace lf::qwen_vl
