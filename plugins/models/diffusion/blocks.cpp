#include "diffusion/blocks.h"

#include <utility>

#include <ATen/ATen.h>

#include "diffusion/cost.h"
#include "family/batch_columns.h"

namespace lf::diffusion {
namespace {

// Image rows that are predicted, of samples with more of them.
struct Wanted {
  std::vector<int64_t> rows, starts{0};
  nn::Runs runs;
  bool all = true;
};

Wanted wanted_of(const std::vector<int64_t>& ranges, const components::DiffusionBatch& batch) {
  Wanted wanted;
  for (size_t s = 0; s + 1 < batch.image_starts.size(); ++s) {
    const int64_t begin = batch.image_starts[s] + ranges[2 * s], end = begin + ranges[2 * s + 1];
    for (int64_t row = begin; row < end; ++row) wanted.rows.push_back(row);
    const nn::Runs part = nn::slice(batch.image_runs, begin, end);
    for (size_t i = 0; i < part.count(); ++i) {
      wanted.runs.starts.push_back(wanted.starts.back() + part.starts[i + 1]);
      wanted.runs.of.push_back(part.of[i]);
    }
    wanted.starts.push_back(wanted.starts.back() + end - begin);
  }
  wanted.all = static_cast<int64_t>(wanted.rows.size()) == batch.image_rows();
  return wanted;
}

std::shared_ptr<components::DiffusionBatch> diffusion_batch(const DiffusionConfig& config, const lf_batch& given,
                                                            at::ScalarType type, at::Device device) {
  using family::column;
  using family::needed;
  using family::values;
  const auto floats = [&](const char* name, int64_t ndim) {
    return family::moved(needed(given, name, at::kFloat, ndim), device);
  };
  auto batch = std::make_shared<components::DiffusionBatch>();
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  batch->latents = floats("latents", 2).to(type);
  batch->text = floats("text", 2).to(type);
  if (config.pooled_columns > 0) batch->pooled = floats("pooled", 2).to(type);
  if (config.guidance) batch->guidance = floats("guidance", 1);
  batch->time = floats("time", 1);
  batch->text_starts = values(needed(given, "text_starts", at::kLong, 1));
  batch->image_starts = values(needed(given, "image_starts", at::kLong, 1));
  batch->positions = family::moved(needed(given, "positions", at::kLong, 2), device);
  batch->key_bias = family::moved(column(given, "key_bias", at::kFloat, 1), device);
  const std::vector<int64_t> runs = values(needed(given, "runs", at::kLong, 2));
  for (size_t i = 0; i + 1 < runs.size(); i += 2) {
    batch->image_runs.starts.push_back(batch->image_runs.rows() + runs[i]);
    batch->image_runs.of.push_back(runs[i + 1]);
  }
  const std::vector<int64_t> time_starts = values(needed(given, "time_starts", at::kLong, 1));
  batch->text_runs.starts = batch->text_starts;
  batch->text_runs.of.assign(time_starts.begin(), time_starts.end() - 1);
  const Wanted wanted = wanted_of(values(needed(given, "wanted", at::kLong, 2)), *batch);
  if (!wanted.all) batch->wanted = at::tensor(wanted.rows, at::kLong).to(device);
  batch->wanted_runs = wanted.runs;
  batch->wanted_starts = wanted.starts;
  batch->target = floats("target", 2).to(wide);
  batch->error_share = floats("share", 1).to(wide);
  const at::Tensor weight = floats("weight", 1).to(wide);
  batch->weight = batch->error_share.clone();
  for (int64_t s = 0; s < batch->samples(); ++s)
    batch->weight.slice(0, wanted.starts[static_cast<size_t>(s)], wanted.starts[static_cast<size_t>(s) + 1])
        .mul_(weight[s]);
  batch->outputs = (given.flags & LF_BATCH_OUTPUTS) != 0;
  batch->result = std::make_shared<components::DiffusionResult>();
  return batch;
}

template <typename Stage>
class TransformerBlocks final : public family::Blocks {
 public:
  TransformerBlocks(DiffusionConfig config, Stage stage, const family::BlocksRequest& request)
      : config_(std::move(config)), stage_(std::move(stage)), type_(request.dtype), device_(request.device) {}

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters) override { stage_.bind(unit, std::move(parameters)); }

  family::Opened open(const lf_batch& given, const std::vector<nn::Recompute>& recompute) const override {
    std::shared_ptr<components::DiffusionBatch> batch = diffusion_batch(config_, given, type_, device_);
    const auto result = batch->result;
    const auto weight = static_cast<double>(batch->samples());
    return {stage_.steps(std::move(batch), recompute), [result, weight] {
              family::StepResult step;
              step.loss_sum = result->loss_sum;
              step.loss_weight = weight;
              if (result->prediction.defined()) step.outputs = {result->prediction, result->sample_error.unsqueeze(1)};
              return step;
            }};
  }

 private:
  const DiffusionConfig config_;
  Stage stage_;
  const at::ScalarType type_;
  const at::Device device_;
};

}  // namespace

components::DualStreamConfig dual_stream(const DiffusionConfig& config) {
  const bool flux = config.architecture == Architecture::kFlux;
  components::DualStreamConfig c;
  c.in_columns = config.in_columns();
  c.out_columns = config.out_columns();
  c.text_columns = config.text_columns;
  c.pooled_columns = config.pooled_columns;
  c.guidance = config.guidance;
  c.text_norm = !flux;
  c.heads = config.heads;
  c.head_size = config.head_size;
  c.double_layers = config.layers;
  c.single_layers = config.single_layers;
  c.time_scale = flux ? 1 : 1000;
  c.rotary = {config.rotary_sections, 10000, !flux};
  c.names = flux ? components::DualStreamNames{"x_embedder", "context_embedder", "norm1.linear", "norm1_context.linear",
                                               "ff",         "ff_context"}
                 : components::DualStreamNames{"img_in", "txt_in", "img_mod.1", "txt_mod.1", "img_mlp", "txt_mlp"};
  return c;
}

components::CrossAttentionConfig cross_attention(const DiffusionConfig& config) {
  components::CrossAttentionConfig c;
  c.patch_shape = config.patch_sizes;
  c.patch_shape.insert(c.patch_shape.begin(), config.in_channels);
  c.out_columns = config.out_columns();
  c.text_columns = config.text_columns;
  c.time_columns = config.time_columns;
  c.inner = config.inner;
  c.heads = config.heads;
  c.head_size = config.head_size;
  c.layers = config.layers;
  c.eps = config.eps;
  c.cross_norm = config.cross_norm;
  c.names = config.original_names ? components::CrossAttentionNames{"time_embedding.0",
                                                                    "time_embedding.2",
                                                                    "time_projection.1",
                                                                    "text_embedding.0",
                                                                    "text_embedding.2",
                                                                    "modulation",
                                                                    "self_attn.",
                                                                    "cross_attn.",
                                                                    "q",
                                                                    "k",
                                                                    "v",
                                                                    "o",
                                                                    "norm3",
                                                                    "ffn.0",
                                                                    "ffn.2",
                                                                    "head.modulation",
                                                                    "head.head"}
                                  : components::CrossAttentionNames{"condition_embedder.time_embedder.linear_1",
                                                                    "condition_embedder.time_embedder.linear_2",
                                                                    "condition_embedder.time_proj",
                                                                    "condition_embedder.text_embedder.linear_1",
                                                                    "condition_embedder.text_embedder.linear_2",
                                                                    "scale_shift_table",
                                                                    "attn1.",
                                                                    "attn2.",
                                                                    "to_q",
                                                                    "to_k",
                                                                    "to_v",
                                                                    "to_out.0",
                                                                    "norm2",
                                                                    "ffn.net.0.proj",
                                                                    "ffn.net.2",
                                                                    "scale_shift_table",
                                                                    "proj_out"};
  return c;
}

family::ModelSpec model_spec(const DiffusionConfig& config) {
  family::ModelSpec spec;
  family::ComponentSpec& component = spec.components.emplace_back();
  component.name = "transformer";
  component.features = {std::begin(kFeatures), std::end(kFeatures)};
  if (config.architecture == Architecture::kWan) {
    const components::CrossAttentionConfig c = cross_attention(config);
    component.units = c.units();
    component.parameters = components::parameter_table(c);
    component.boundary = {{"rows", c.width()},
                          {"text", c.width()},
                          {"time", c.width(), LF_ROWS_SAMPLE},
                          {"vectors", 6 * c.width(), LF_ROWS_SAMPLE}};
  } else {
    const components::DualStreamConfig c = dual_stream(config);
    component.units = c.units();
    component.parameters = components::parameter_table(c);
    component.boundary = {{"rows", c.width()}, {"conditioning", c.width(), LF_ROWS_SAMPLE}};
  }
  spec.outputs = {{"prediction", config.out_columns(), LF_ROWS_TOKEN, LF_DTYPE_F32},
                  {"sample_mse", 1, LF_ROWS_SAMPLE, LF_DTYPE_F32}};
  return spec;
}

std::unique_ptr<family::Blocks> make_blocks(const DiffusionConfig& config, const family::BlocksRequest& request) {
  const auto made = [&]<typename Stage>(Stage stage) -> std::unique_ptr<family::Blocks> {
    return std::make_unique<TransformerBlocks<Stage>>(config, std::move(stage), request);
  };
  if (config.architecture == Architecture::kWan)
    return made(components::CrossAttentionStage(cross_attention(config), request.first_unit, request.n_units));
  return made(components::DualStreamStage(dual_stream(config), request.first_unit, request.n_units));
}

}  // namespace lf::diffusion
