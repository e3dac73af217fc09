#include "internvl/processor/cost.h"

#include "family/cost.h"

namespace lf::internvl {
namespace {

constexpr int64_t kValueBytes = 2;  // activations in bf16, the usual compute type

}  // namespace

family::Features features_of(std::span<const family::Sequence> sequences, const InternVlConfig& config,
                             LossWeighting weighting) {
  family::Features out(2);
  const auto patches = static_cast<double>(config.tile_patches());
  double weight = 0;
  for (const family::Sequence& sequence : sequences) {
    const int64_t supervised = sequence.supervised();
    weight += token_weight(weighting, supervised) * static_cast<double>(supervised);
    for (const family::VisionInput& input : sequence.vision)
      for (int64_t tile = 0; tile < input.groups; ++tile)
        out[0].insert(out[0].end(), {patches, (patches + 1) * (patches + 1), 0});
  }
  const std::vector<double> language = family::language_features(sequences);
  out[1] = {language[0], weight, language[2], language[1]};
  return out;
}

lf_cost vision_cost(const InternVlConfig& config, int64_t unit, std::span<const double> atoms) {
  const VisionConfig& v = config.vision;
  const auto [patches, pairs, none] = family::totals<3>(atoms);
  const auto width = static_cast<double>(v.hidden_size), inner = static_cast<double>(v.intermediate_size);
  const double rows = patches * (1 + 1 / static_cast<double>(config.tile_patches()));  // with the class rows
  family::Work work;
  if (unit == 0) {
    const auto columns = static_cast<double>(v.num_channels * v.patch_size * v.patch_size);
    work.linear = 2 * patches * columns * width;
    work.saved = patches * columns;
    work.out = rows * width;
  } else if (unit == v.num_hidden_layers + 1) {
    const int64_t folded = v.hidden_size * config.merge * config.merge;
    work = family::merger_work(patches / static_cast<double>(config.merge * config.merge), folded,
                               config.text.hidden_size, config.text.hidden_size);
  } else {
    work.linear = 2 * rows * width * (4 * width + 2 * inner);
    work.attention = 4 * pairs * width;
    // In, qkv (twice with its norms), attended, between, what the two scales multiply; before the activation.
    work.saved = rows * ((v.query_key_norms ? 11 : 8) * width + inner);
    work.peak = rows * 4 * width;
    work.out = rows * width;
  }
  return work.cost(kValueBytes, unit > 0);
}

lf_cost language_cost(const InternVlConfig& config, int64_t unit, std::span<const double> atoms) {
  const auto [rows, weight, pairs, supervised] = family::totals<4>(atoms);
  const double sums[] = {rows, weight, pairs};
  return family::decoder_work(config.text, unit, sums, supervised).cost(kValueBytes, true);
}

}  // namespace lf::internvl
