#include "components/dual_stream_transformer.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "nn/timestep.h"

namespace lf::components {
namespace {

constexpr double kEps = 1e-6;        // of every norm
constexpr double kDeviation = 0.02;  // of weights that start at random
constexpr int64_t kTimeColumns = 256, kMlpRatio = 4;

// Places in a layer's modulation row.
enum : int64_t { kShift1 = 0, kScale1, kGate1, kShift2, kScale2, kGate2, kVectors };
constexpr int64_t kSingleVectors = 3;

void add_linear(ParameterTable& table, const std::string& name, uint32_t unit, int64_t out, int64_t in,
                double deviation = kDeviation) {
  const Init init = deviation > 0 ? Init::kNormal : Init::kZeros;
  table.push_back(linear_map(whole(name + ".weight", unit, {out, in}, init, deviation)));
  table.back().decays = true;
  table.push_back(whole(name + ".bias", unit, {out}, Init::kZeros));
}

void add_two_linears(ParameterTable& table, const std::string& name, uint32_t unit, int64_t out, int64_t in) {
  add_linear(table, name + ".linear_1", unit, out, in);
  add_linear(table, name + ".linear_2", unit, out, out);
}

void add_qkv(ParameterTable& table, const std::string& name, const std::string (&parts)[3], uint32_t unit,
             int64_t width) {
  std::vector<Part> weights, biases;
  for (const std::string& part : parts) {
    weights.push_back({part + ".weight", {width, width}});
    biases.push_back({part + ".bias", {width}});
  }
  table.push_back(linear_map(joined(name + ".weight", unit, weights, Init::kNormal, kDeviation)));
  table.push_back(joined(name + ".bias", unit, biases, Init::kZeros));
}

void add_head_norms(ParameterTable& table, const std::string& query, const std::string& key, uint32_t unit,
                    int64_t head_size) {
  table.push_back(whole(query + ".weight", unit, {head_size}, Init::kOnes));
  table.push_back(whole(key + ".weight", unit, {head_size}, Init::kOnes));
}

// dead: the stream's result is not used after this layer, so that what makes it never gets a gradient.
void add_half(ParameterTable& table, const DualStreamConfig& c, const std::string& block, bool image, bool dead,
              uint32_t unit) {
  const int64_t width = c.width();
  const std::string attention = block + "attn.";
  const std::string mlp = block + (image ? c.names.image_mlp : c.names.text_mlp);
  add_linear(table, block + (image ? c.names.image_modulation : c.names.text_modulation), unit, kVectors * width, width,
             0);
  if (image) {
    add_qkv(table, attention + "qkv", {attention + "to_q", attention + "to_k", attention + "to_v"}, unit, width);
    add_head_norms(table, attention + "norm_q", attention + "norm_k", unit, c.head_size);
  } else {
    add_qkv(table, attention + "added_qkv",
            {attention + "add_q_proj", attention + "add_k_proj", attention + "add_v_proj"}, unit, width);
    add_head_norms(table, attention + "norm_added_q", attention + "norm_added_k", unit, c.head_size);
  }
  const size_t used = table.size();
  add_linear(table, attention + (image ? "to_out.0" : "to_add_out"), unit, width, width);
  add_linear(table, mlp + ".net.0.proj", unit, kMlpRatio * width, width);
  add_linear(table, mlp + ".net.2", unit, width, kMlpRatio * width);
  if (dead)
    for (size_t i = used; i < table.size(); ++i) table[i].dead = true;
}

}  // namespace

ParameterTable parameter_table(const DualStreamConfig& c) {
  ParameterTable table;
  const int64_t width = c.width();
  add_linear(table, c.names.image_in, 0, width, c.in_columns);
  if (c.text_norm) table.push_back(whole("txt_norm.weight", 0, {c.text_columns}, Init::kOnes));
  add_linear(table, c.names.text_in, 0, width, c.text_columns);
  add_two_linears(table, "time_text_embed.timestep_embedder", 0, width, kTimeColumns);
  if (c.guidance) add_two_linears(table, "time_text_embed.guidance_embedder", 0, width, kTimeColumns);
  if (c.pooled_columns > 0) add_two_linears(table, "time_text_embed.text_embedder", 0, width, c.pooled_columns);
  uint32_t unit = 1;
  for (int64_t layer = 0; layer < c.double_layers; ++layer, ++unit) {
    const std::string block = fmt::format("transformer_blocks.{}.", layer);
    const bool last = layer + 1 == c.double_layers && c.single_layers == 0;
    add_half(table, c, block, /*image=*/false, /*dead=*/last, unit);
    add_half(table, c, block, /*image=*/true, /*dead=*/false, unit);
  }
  for (int64_t layer = 0; layer < c.single_layers; ++layer, ++unit) {
    const std::string block = fmt::format("single_transformer_blocks.{}.", layer);
    const std::string attention = block + "attn.";
    add_linear(table, block + "norm.linear", unit, kSingleVectors * width, width, 0);
    add_qkv(table, attention + "qkv", {attention + "to_q", attention + "to_k", attention + "to_v"}, unit, width);
    add_head_norms(table, attention + "norm_q", attention + "norm_k", unit, c.head_size);
    add_linear(table, block + "proj_mlp", unit, kMlpRatio * width, width);
    add_linear(table, block + "proj_out", unit, width, (1 + kMlpRatio) * width);
  }
  add_linear(table, "norm_out.linear", unit, 2 * width, width, 0);
  add_linear(table, "proj_out", unit, c.out_columns, width, 0);
  return table;
}

struct DualStreamStage::Layout {
  JointRows joint;
  at::Tensor places;  // i64 [M + R]: of text and image rows among the joint ones
  nn::Runs runs;      // of text and image rows
  nn::PairRotary rotary;
  nn::HeadsShape heads;
  nn::AttentionShape attention;
};

DualStreamStage::DualStreamStage(DualStreamConfig config, uint32_t first_unit, uint32_t n_units)
    : config_(std::move(config)), first_unit_(first_unit), units_(n_units) {}

DualStreamStage::Half DualStreamStage::take_half(Binding& binding, bool single) const {
  Half half;
  half.modulation = binding.take_linear(true);
  half.qkv = binding.take_linear(true);
  half.query = binding.take_norm(nn::NormKind::kRms, kEps);
  half.key = binding.take_norm(nn::NormKind::kRms, kEps);
  if (!single) half.out = binding.take_linear(true);
  half.up = binding.take_linear(true);
  half.down = binding.take_linear(true);
  return half;
}

void DualStreamStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const DualStreamConfig& c = config_;
  const int64_t number = first_unit_ + unit, layer = number - 1;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  const auto take_two = [&] {
    TwoLinears two{binding.take_linear(true), {}};
    two.second = binding.take_linear(true);
    return two;
  };
  if (number == 0) {
    u.image_in = binding.take_linear(true);
    if (c.text_norm) u.text_norm = binding.take_norm(nn::NormKind::kRms, kEps);
    u.text_in = binding.take_linear(true);
    u.time = take_two();
    if (c.guidance) u.guidance = take_two();
    if (c.pooled_columns > 0) u.pooled = take_two();
  } else if (layer < c.double_layers) {
    u.text = take_half(binding, false);
    u.image = take_half(binding, false);
  } else if (layer < c.double_layers + c.single_layers) {
    u.image = take_half(binding, true);
  } else {
    u.modulation = binding.take_linear(true);
    u.out = binding.take_linear(true);
  }
  binding.done();
}

nn::Tensors DualStreamStage::begin(const Unit& unit, const DiffusionBatch& batch) const {
  const auto type = batch.latents.scalar_type();
  const auto embedded = [&](const at::Tensor& in, const TwoLinears& two) {
    return nn::activate_linear(nn::linear(in.to(type), two.first), nn::Activation::kSilu, two.second);
  };
  const auto angles = [&](const at::Tensor& time) {
    return nn::timestep_embedding(time, kTimeColumns, config_.time_scale);
  };
  at::Tensor conditioning = embedded(angles(batch.time), unit.time);
  if (config_.guidance) conditioning = conditioning + embedded(angles(batch.guidance), unit.guidance);
  if (config_.pooled_columns > 0) conditioning = conditioning + embedded(batch.pooled, unit.pooled);
  const at::Tensor text = config_.text_norm ? nn::norm_linear(batch.text, unit.text_norm, unit.text_in)
                                            : nn::linear(batch.text, unit.text_in);
  return {at::cat({text, nn::linear(batch.latents, unit.image_in)}, 0), conditioning};
}

namespace {

nn::Stream stream(const at::Tensor& qkv, const nn::Norm& query, const nn::Norm& key, const at::Tensor& to) {
  return {qkv, {query, key, {}}, {true, true, false}, to};
}

}  // namespace

nn::Tensors DualStreamStage::two_streams(const Unit& unit, bool text_goes_on, const DiffusionBatch& batch,
                                         const Layout& layout, const nn::Tensors& in) const {
  const auto rows = in[0].split_with_sizes({batch.text_rows(), batch.image_rows()}, 0);
  at::Tensor text = rows[0], image = rows[1];
  const auto modulation = [&](const Half& half) {
    return nn::activate_linear(in[1], nn::Activation::kSilu, half.modulation);
  };
  const auto qkv = [](const at::Tensor& x, const at::Tensor& vectors, const nn::Runs& runs, const Half& half) {
    return nn::modulated_linears(x, {vectors, kShift1, kScale1, kEps}, runs, {half.qkv})[0];
  };
  const at::Tensor text_vectors = modulation(unit.text), image_vectors = modulation(unit.image);
  const at::Tensor joint = nn::join_heads(
      {stream(qkv(text, text_vectors, batch.text_runs, unit.text), unit.text.query, unit.text.key, layout.joint.text),
       stream(qkv(image, image_vectors, batch.image_runs, unit.image), unit.image.query, unit.image.key,
              layout.joint.image)},
      layout.heads, layout.rotary, layout.joint.segments.rows());
  const nn::Tensors attended = nn::split_rows(nn::attention(joint, layout.attention, {}, {}, layout.joint.segments),
                                              {layout.joint.text, layout.joint.image});
  const auto rest = [](const at::Tensor& x, const at::Tensor& seen, const at::Tensor& vectors, const nn::Runs& runs,
                       const Half& half) {
    const at::Tensor y = nn::linear_gated(seen, half.out, vectors, kGate1, runs, x);
    const at::Tensor h = nn::modulated_linears(y, {vectors, kShift2, kScale2, kEps}, runs, {half.up})[0];
    return nn::activate_linear_gated(h, nn::Activation::kGeluTanh, {}, half.down, vectors, kGate2, runs, y);
  };
  image = rest(image, attended[1], image_vectors, batch.image_runs, unit.image);
  if (text_goes_on) text = rest(text, attended[0], text_vectors, batch.text_runs, unit.text);
  return {at::cat({text, image}, 0), in[1]};
}

nn::Tensors DualStreamStage::one_stream(const Unit& unit, const Layout& layout, const nn::Tensors& in) const {
  const at::Tensor vectors = nn::activate_linear(in[1], nn::Activation::kSilu, unit.image.modulation);
  const nn::Tensors wide =
      nn::modulated_linears(in[0], {vectors, kShift1, kScale1, kEps}, layout.runs, {unit.image.qkv, unit.image.up});
  const at::Tensor joint = nn::join_heads({stream(wide[0], unit.image.query, unit.image.key, layout.places)},
                                          layout.heads, layout.rotary, layout.joint.segments.rows());
  const at::Tensor attended =
      nn::split_rows(nn::attention(joint, layout.attention, {}, {}, layout.joint.segments), {layout.places})[0];
  return {nn::activate_linear_gated(wide[1], nn::Activation::kGeluTanh, attended, unit.image.down, vectors, kGate1,
                                    layout.runs, in[0]),
          in[1]};
}

nn::Tensors DualStreamStage::end(const Unit& unit, const DiffusionBatch& batch, const nn::Tensors& in) const {
  at::Tensor rows = in[0].narrow(0, batch.text_rows(), batch.image_rows());
  if (batch.wanted.defined()) rows = rows.index_select(0, batch.wanted);
  const at::Tensor vectors = nn::activate_linear(in[1], nn::Activation::kSilu, unit.modulation);
  const at::Tensor prediction =
      nn::modulated_linears(rows, {vectors, /*shift=*/1, /*scale=*/0, kEps}, batch.wanted_runs, {unit.out})[0];
  return {finish(batch, prediction)};
}

std::vector<nn::Step> DualStreamStage::steps(std::shared_ptr<const DiffusionBatch> batch,
                                             const std::vector<nn::Recompute>& recompute) const {
  auto layout = std::make_shared<Layout>();
  layout->joint = joint_rows(*batch);
  layout->places = at::cat({layout->joint.text, layout->joint.image});
  layout->runs = batch->text_runs;
  for (size_t i = 0; i < batch->image_runs.count(); ++i) {
    layout->runs.starts.push_back(batch->text_rows() + batch->image_runs.starts[i + 1]);
    layout->runs.of.push_back(batch->image_runs.of[i]);
  }
  const at::Tensor positions = at::empty_like(batch->positions).index_copy_(1, layout->places, batch->positions);
  layout->rotary = nn::pair_rotary(config_.rotary, positions);
  layout->heads = {config_.heads, config_.head_size, false};
  layout->attention = {.heads = config_.heads, .kv_heads = config_.heads, .head_size = config_.head_size};
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i, layer = number - 1;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    if (number == 0) {
      step.run = [this, unit, batch](const nn::Tensors&) { return begin(*unit, *batch); };
    } else if (layer < config_.double_layers) {
      const bool text_goes_on = number + 2 < config_.units();
      step.run = [this, unit, text_goes_on, batch, layout](const nn::Tensors& in) {
        return two_streams(*unit, text_goes_on, *batch, *layout, in);
      };
    } else if (layer < config_.double_layers + config_.single_layers) {
      step.run = [this, unit, layout](const nn::Tensors& in) { return one_stream(*unit, *layout, in); };
    } else {
      step.recompute = nn::Recompute::kNone;  // it keeps little
      step.run = [this, unit, batch](const nn::Tensors& in) { return end(*unit, *batch, in); };
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
