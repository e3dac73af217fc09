// The parameters of a DeepSeek decoder, by their published names.
#include <fmt/format.h>

#include "components/latent_decoder.h"

namespace lf::components {
namespace {

constexpr int64_t kVocabularyPiece = 64;  // rows of the table that stay together when it is cut

class Writer {
 public:
  Writer(const LatentDecoderConfig& config, ParameterTable& table) : c_(config), table_(table) {}

  void norm(const std::string& name, uint32_t unit, int64_t width) { add(whole(name, unit, {width}, Init::kOnes)); }
  void matrix(const std::string& name, uint32_t unit, int64_t out, int64_t in, Along along = Along::kNone,
              int64_t axis = 0, int64_t piece = 1) {
    ParameterSpec spec = whole(name, unit, {out, in}, Init::kNormal, c_.deviation);
    spec.parts[0].along = along;
    spec.parts[0].axis = axis;
    spec.parts[0].piece = piece;
    add(std::move(spec));
  }
  void map(const std::string& name, uint32_t unit, int64_t out, int64_t in, Along along = Along::kNone,
           int64_t axis = 0, int64_t piece = 1) {
    matrix(name, unit, out, in, along, axis, piece);
    table_.back().linear = true;
  }
  void vocabulary(const std::string& name, uint32_t unit, std::optional<uint32_t> tied_to = {}) {
    matrix(name, unit, c_.vocabulary, c_.width, Along::kTensor, 0, kVocabularyPiece);
    table_.back().tied_to = tied_to;
    table_.back().linear = true;
    (name.ends_with("embed_tokens.weight") ? table_.back().lookup : table_.back().logits) = true;
  }
  void final_norm(uint32_t unit, std::optional<uint32_t> tied_to) {
    norm(c_.prefix + "norm.weight", unit, c_.width);
    table_.back().tied_to = tied_to;
    if (tied_to) table_.back().name += ".shared";  // the same tensor of the files, used in a second unit
  }
  uint32_t last() const { return static_cast<uint32_t>(table_.size() - 1); }

  void layer(int64_t number, uint32_t unit) {
    const std::string block = fmt::format("{}layers.{}.", c_.prefix, number), attention = block + "self_attn.";
    const nn::LatentShape& a = c_.attention;
    norm(block + "input_layernorm.weight", unit, c_.width);
    const int64_t queries = a.heads * a.head_size(), first = c_.query_rank > 0 ? c_.query_rank : queries;
    add(linear_map(joined(attention + "qkv_a_proj.weight", unit,
                          {{attention + (c_.query_rank > 0 ? "q_a_proj.weight" : "q_proj.weight"), {first, c_.width}},
                           {attention + "kv_a_proj_with_mqa.weight", {a.latent + a.rotated, c_.width}}},
                          Init::kNormal, c_.deviation)));
    if (c_.query_rank > 0) {
      norm(attention + "q_a_layernorm.weight", unit, c_.query_rank);
      map(attention + "q_b_proj.weight", unit, queries, c_.query_rank, Along::kTensor, 0, a.head_size());
    }
    norm(attention + "kv_a_layernorm.weight", unit, a.latent);
    map(attention + "kv_b_proj.weight", unit, a.heads * (a.plain + a.value), a.latent, Along::kTensor, 0,
        a.plain + a.value);
    table_.back().linear = !c_.indexed;  // sparse attention reads it as a table
    if (c_.indexed) {
      index_ = true;
      const std::string indexer = attention + "indexer.";
      map(indexer + "wq_b.weight", unit, c_.index.heads * c_.index.size, c_.query_rank);
      map(indexer + "wk.weight", unit, c_.index.size, c_.width);
      norm(indexer + "k_norm.weight", unit, c_.index.size);
      add(whole(indexer + "k_norm.bias", unit, {c_.index.size}, Init::kZeros));
      matrix(indexer + "weights_proj.weight", unit, c_.index.heads, c_.width);
      index_ = false;
    }
    map(attention + "o_proj.weight", unit, c_.width, a.heads * a.value, Along::kTensor, 1, a.value);
    norm(block + "post_attention_layernorm.weight", unit, c_.width);
    if (!c_.is_sparse(number)) return feed_forward(block + "mlp.", unit, c_.intermediate);
    matrix(block + "mlp.gate.weight", unit, c_.experts, c_.width);
    bias(block + "mlp.gate.e_score_correction_bias", unit);
    experts(block, unit);
    feed_forward(block + "mlp.shared_experts.", unit, c_.shared_width);
  }

  // The module is there and not trained: its own parameters are kept as they are.
  bool keeps = false;

 private:
  void add(ParameterSpec spec) {
    // In the warm-up nothing but the indexers learns; where they do not learn, they are kept as they are.
    if (index_ ? !c_.learns_index() : c_.warms_up()) spec.buffer = true;
    if (keeps) spec.buffer = true;
    table_.push_back(std::move(spec));
  }
  void bias(const std::string& name, uint32_t unit) {
    ParameterSpec spec = whole(name, unit, {c_.experts}, Init::kZeros);
    spec.sign_step = c_.bias_rate;
    spec.buffer = c_.bias_rate == 0;
    add(std::move(spec));
  }
  void feed_forward(const std::string& name, uint32_t unit, int64_t inner) {
    const std::vector<int64_t> shape = {inner, c_.width};
    add(linear_map(
        joined(name + "gate_up_proj.weight", unit,
               {{name + "gate_proj.weight", shape, Along::kTensor}, {name + "up_proj.weight", shape, Along::kTensor}},
               Init::kNormal, c_.deviation)));
    map(name + "down_proj.weight", unit, c_.width, inner, Along::kTensor, 1, 1);
  }
  void experts(const std::string& block, uint32_t unit) {
    const auto stacked = [&](const char* which, int64_t in, int64_t out) {
      Part part{fmt::format("{}mlp.experts.{{}}.{}_proj.weight", block, which), {c_.experts, in, out}, Along::kExpert};
      part.transposed = true;
      part.stack = c_.experts;
      return part;
    };
    const auto add_expert = [&](const char* name, std::vector<Part> parts) {
      ParameterSpec spec =
          joined(block + "mlp.experts." + name, unit, std::move(parts), Init::kNormal, c_.deviation, 2);
      spec.expert = spec.linear = true;
      add(std::move(spec));
    };
    add_expert("gate_up_proj", {stacked("gate", c_.width, c_.expert_width), stacked("up", c_.width, c_.expert_width)});
    add_expert("down_proj", {stacked("down", c_.expert_width, c_.width)});
  }

  const LatentDecoderConfig& c_;
  ParameterTable& table_;
  bool index_ = false;
};

}  // namespace

ParameterTable parameter_table(const LatentDecoderConfig& c) {
  ParameterTable table;
  Writer writer(c, table);
  writer.vocabulary(c.prefix + "embed_tokens.weight", 0);
  for (int64_t layer = 0; layer < c.layers; ++layer) writer.layer(layer, static_cast<uint32_t>(layer + 1));
  std::optional<uint32_t> final_norm;
  const std::string module = fmt::format("{}layers.{}.", c.prefix, c.layers);
  const auto last = static_cast<uint32_t>(c.n_units() - 1);
  if (c.mtp) {
    const auto unit = static_cast<uint32_t>(c.layers + 1);
    writer.final_norm(unit, {});
    final_norm = writer.last();
    writer.vocabulary(module + "embed_tokens.weight", unit, 0);
    writer.keeps = !c.trains_mtp;
    writer.norm(module + "enorm.weight", unit, c.width);
    writer.norm(module + "hnorm.weight", unit, c.width);
    writer.map(module + "eh_proj.weight", unit, c.width, 2 * c.width);
    writer.layer(c.layers, unit);
    writer.keeps = false;
  }
  writer.final_norm(last, final_norm);
  writer.vocabulary(c.head_name, last);
  if (c.mtp) {
    const uint32_t head = writer.last();
    writer.keeps = !c.trains_mtp;
    writer.norm(module + "shared_head.norm.weight", last, c.width);
    writer.keeps = false;
    writer.vocabulary(module + "shared_head.head.weight", last, head);
  }
  return table;
}

}  // namespace lf::components
