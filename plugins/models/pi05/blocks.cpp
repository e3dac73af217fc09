#include "pi05/blocks.h"

#include <iterator>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "family/batch_columns.h"
#include "lf/plugin_sdk/guard.hpp"
#include "pi05/columns.h"
#include "pi05/cost.h"

namespace lf::pi05 {
namespace {

using family::column;
using family::moved;
using family::needed;
using family::values;

// Rows of each segment.
std::vector<int64_t> lengths(const std::vector<int64_t>& starts) {
  std::vector<int64_t> lengths;
  for (size_t s = 0; s + 1 < starts.size(); ++s) lengths.push_back(starts[s + 1] - starts[s]);
  return lengths;
}

template <typename Config, typename Stage>
class ComponentBlocks : public family::Blocks {
 public:
  ComponentBlocks(Config config, const family::BlocksRequest& request)
      : config_(std::move(config)),
        begins_(request.first_unit == 0),
        options_(at::TensorOptions().dtype(request.dtype).device(request.device)),
        stage_(config_, request.first_unit, request.n_units) {}

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters) override { stage_.bind(unit, std::move(parameters)); }

 protected:
  const Config config_;
  const bool begins_;
  const at::TensorOptions options_;
  Stage stage_;
};

class VisionBlocks final : public ComponentBlocks<components::SiglipConfig, components::SiglipStage> {
 public:
  using ComponentBlocks::ComponentBlocks;
  family::Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const at::Tensor pixels = needed(batch, "pixel_values", at::kFloat, 2);
    const int64_t each = config_.image_patches();
    if (pixels.size(0) % each != 0)
      throw sdk::Failure(LF_E_INVALID, fmt::format("pixel_values: expected whole images of {} patches, got {} rows",
                                                   each, pixels.size(0)));
    auto made = std::make_shared<components::SiglipBatch>(
        components::siglip_batch(config_, pixels.size(0) / each, begins_ ? pixels : at::Tensor(), options_));
    return {stage_.steps(std::move(made), recompute), {}};
  }
};

class LanguageBlocks final : public ComponentBlocks<components::PrefixDecoderConfig, components::PrefixStage> {
 public:
  using ComponentBlocks::ComponentBlocks;
  family::Opened open(const lf_batch& batch, const std::vector<nn::Recompute>& recompute) const override {
    const auto on_device = [&](const char* name) {
      return moved(needed(batch, name, at::kLong, 1), options_.device());
    };
    auto made = std::make_shared<components::PrefixBatch>(
        components::prefix_batch(config_, on_device("token_ids"), on_device("text_places"), on_device("visual_places"),
                                 {values(needed(batch, "prefix_starts", at::kLong, 1))}));
    return {stage_.steps(std::move(made), recompute), {}};
  }
};

class ActionBlocks final : public ComponentBlocks<components::ActionExpertConfig, components::ActionExpertStage> {
 public:
  using ComponentBlocks::ComponentBlocks;
  family::Opened open(const lf_batch& given, const std::vector<nn::Recompute>& recompute) const override {
    auto batch = std::make_shared<components::ActionBatch>();
    const auto wide = options_.dtype() == at::kDouble ? at::kDouble : at::kFloat;
    const auto rows = [&](const char* name) { return needed(given, name, at::kFloat, 2).to(options_.dtype(wide)); };
    batch->actions = rows("actions");
    batch->target = rows("target");
    batch->counted = rows("counted");
    batch->time = moved(needed(given, "time", at::kFloat, 1), options_.device());
    const std::vector<int64_t> prefix = lengths(values(needed(given, "prefix_starts", at::kLong, 1)));
    const int64_t samples = batch->time.size(0), all = batch->actions.size(0);
    if (static_cast<int64_t>(prefix.size()) != samples || samples == 0 || all % samples != 0)
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("{} prefixes and {} rows of actions for {} samples", prefix.size(), all, samples));
    const int64_t horizon = all / samples;
    batch->layout = nn::memory_layout(prefix, std::vector<int64_t>(prefix.size(), horizon),
                                      nn::plain_rotary(config_.head_size, config_.rope_theta), options_.device());
    batch->runs.starts = batch->layout.own.starts;
    for (int64_t s = 0; s < samples; ++s) batch->runs.of.push_back(s);
    batch->compute = options_;
    batch->outputs = (given.flags & LF_BATCH_OUTPUTS) != 0;
    if (const at::Tensor steps = column(given, "sampling_steps", at::kLong, 1); steps.defined() && batch->outputs) {
      batch->sampling_steps = values(steps).at(0);
      batch->noise = rows("noise");
    }
    batch->result = std::make_shared<components::ActionResult>();
    const auto result = batch->result;
    return {stage_.steps(std::move(batch), recompute), [result] {
              family::StepResult step;
              step.loss_sum = result->loss_sum;
              step.loss_weight = result->loss_weight;
              if (result->velocity.defined()) step.outputs = {result->velocity, result->element_loss, result->sampled};
              return step;
            }};
  }
};

}  // namespace

Pi05 compose(const Pi05Config& c, const Naming& naming) {
  Pi05 model;
  const std::string joint = naming.outer + "paligemma_with_expert.", paligemma = joint + "paligemma.";
  components::SiglipConfig& vision = model.vision;
  vision.depth = c.vision_layers;
  vision.width = c.vision_width;
  vision.heads = c.vision_heads;
  vision.intermediate = c.vision_inner;
  vision.out_width = c.vlm.width;
  vision.patch = c.patch;
  vision.side = c.image_size / c.patch;
  vision.norm_eps = c.vision_eps;
  vision.tower = paligemma + "model." + naming.tower;
  vision.projector = paligemma + "model.multi_modal_projector.linear";

  components::PrefixDecoderConfig& language = model.language;
  language.vocabulary = c.vocabulary;
  language.width = c.vlm.width;
  language.intermediate = c.vlm.inner;
  language.prefix = paligemma + "model.language_model.";
  language.table_name = paligemma + naming.table;
  if (naming.spare_head) language.spare_head = paligemma + "lm_head.weight";

  components::ActionExpertConfig& action = model.action;
  action.width = c.expert.width;
  action.intermediate = c.expert.inner;
  action.columns = c.action_columns;
  action.vocabulary = naming.expert_head ? c.vocabulary : 0;
  action.min_period = c.min_period;
  action.max_period = c.max_period;
  action.outer = naming.outer;
  action.prefix = joint + "gemma_expert.";

  const auto decoder = [&](auto& d) {
    d.layers = c.layers;
    d.heads = c.heads;
    d.kv_heads = c.kv_heads;
    d.head_size = c.head_size;
    d.norm_eps = c.norm_eps;
    d.rope_theta = c.rope_theta;
  };
  decoder(language);
  decoder(action);
  return model;
}

family::ModelSpec model_spec(const Pi05& model, const Pi05Config& config) {
  const components::PrefixDecoderConfig& language = model.language;
  const components::ActionExpertConfig& action = model.action;
  const auto names = [](auto& list) { return std::vector<std::string>(std::begin(list), std::end(list)); };
  family::ModelSpec spec;
  spec.components.resize(3);
  family::ComponentSpec& vision_part = spec.components[kVision];
  vision_part.name = "vision";
  vision_part.units = model.vision.n_units();
  vision_part.parameters = components::parameter_table(model.vision);
  vision_part.features = names(kVisionFeatures);
  vision_part.boundary = {{"hidden", model.vision.width}};
  family::ComponentSpec& language_part = spec.components[kLanguage];
  language_part.name = "language";
  language_part.units = language.n_units();
  language_part.parameters = components::parameter_table(language);
  language_part.features = names(kLanguageFeatures);
  language_part.boundary = {{"hidden", language.width}};
  family::ComponentSpec& action_part = spec.components[kAction];
  action_part.name = "action";
  action_part.units = action.n_units();
  action_part.parameters = components::parameter_table(action);
  action_part.features = names(kActionFeatures);
  action_part.boundary = {{"hidden", action.width}, {"conditioning", action.width, LF_ROWS_SAMPLE}};

  // lerobot freezes the tower without its projector, or all of PaliGemma.
  for (components::ParameterSpec& parameter : vision_part.parameters)
    parameter.dead = parameter.dead || config.prefix_frozen ||
                     (config.tower_frozen && parameter.name.starts_with(model.vision.tower));
  for (components::ParameterSpec& parameter : language_part.parameters)
    parameter.dead = parameter.dead || config.prefix_frozen;

  spec.edges.push_back(
      {"visual", kVision, kLanguage, static_cast<uint32_t>(model.vision.depth + 1), 0, language.width});
  for (int64_t layer = 0; layer < language.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    spec.edges.push_back({fmt::format("memory.{}", layer), kLanguage, kAction, unit, unit, language.memory_columns()});
  }
  // Where lerobot's PI05Policy has the model.
  if (action.outer.empty()) spec.class_prefixes.push_back({"", "model."});
  for (const char* name : kOutputs) spec.outputs.push_back({name, action.columns, LF_ROWS_TOKEN, LF_DTYPE_F32});
  return spec;
}

std::unique_ptr<family::Blocks> make_blocks(const Pi05& model, const family::BlocksRequest& request) {
  if (request.component == kVision) return std::make_unique<VisionBlocks>(model.vision, request);
  if (request.component == kLanguage) return std::make_unique<LanguageBlocks>(model.language, request);
  return std::make_unique<ActionBlocks>(model.action, request);
}

}  // namespace lf::pi05
