#include "deepseek/processor/features.h"

#include <algorithm>

#include <fmt/format.h>

#include "family/cost.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

using components::LatentDecoderConfig;

// Logits are held a chunk at a time (nn::TokenLossConfig): 64 MiB of f32, and as many rounded to bf16; in bf16 values.
constexpr double kLogitValues = 48 * 1024 * 1024;

double real(int64_t n) { return static_cast<double>(n); }

// Rows whose label two rows further on is to be predicted.
int64_t supervised_later(const family::Sequence& sequence) {
  if (sequence.labels.size() < 2) return 0;
  return std::count_if(sequence.labels.begin() + 2, sequence.labels.end(),
                       [](int64_t label) { return label != family::kUnsupervised; });
}

struct Work {
  double linear = 0;   // of weights: as much again for each of the two backward products
  double forward = 0;  // products without weights, and of what no gradient passes
  double backward = 0;
  double saved = 0, peak = 0;  // values
};

struct Sums {
  double rows, supervised, pairs, selected, next;
};

Work attention(const LatentDecoderConfig& c, const Sums& n) {
  const nn::LatentShape& a = c.attention;
  const double heads = real(a.heads), queries = heads * real(a.head_size()), values = heads * real(a.value);
  const double latents = real(a.latent + a.rotated), expand = real(a.latent) * heads * real(a.plain + a.value);
  const double first = real(c.query_rank > 0 ? c.query_rank : a.heads * a.head_size());
  Work work;
  work.linear =
      2 * n.rows * (real(c.width) * (first + latents + values) + (c.query_rank > 0 ? first * queries : 0) + expand);
  work.saved = n.rows * (real(c.width) + 2 * first + 2 * latents + queries + values);
  if (!c.uses_index()) {
    work.forward = 2 * n.pairs * (queries + values);
    work.backward = 2 * work.forward;
    work.saved += n.rows * heads * real(a.plain + a.value);  // the expanded latents
    work.peak = 2 * n.rows * (queries + values);
    return work;
  }
  // Queries go down to the latents, and what is attended comes up again (both inside `expand`); pairs are between
  // latents. Where only the indexer learns, its gradients are made in forward, and kept.
  const double index = real(c.index.heads * c.index.size), pair = heads * (latents + real(a.latent));
  const double pairs = c.warms_up() ? n.pairs : n.selected;
  work.linear += 2 * n.rows * (real(c.query_rank) * index + real(c.width) * real(c.index.size + c.index.heads));
  work.forward = 2 * (n.pairs * index + pairs * pair);
  const double learning = c.learns_index() ? 2 * pairs * 3 * index : 0;
  work.saved += n.rows * (index + real(c.index.size));
  if (c.warms_up()) {
    work.forward += learning;
    work.saved += 2 * n.rows * (index + real(c.index.size));
  } else {
    work.backward = 6 * pairs * pair + learning;
    work.saved += 0.5 * pairs;  // selected rows, a byte each
  }
  work.peak = n.rows * 4 * latents;
  return work;
}

Work layer(const LatentDecoderConfig& c, int64_t number, const Sums& n) {
  Work work = attention(c, n);
  const bool sparse = c.is_sparse(number);
  const double inner = sparse ? real(c.routing.top_k * c.expert_width + c.shared_width) : real(c.intermediate);
  work.linear += 2 * n.rows * real(c.width) * (3 * inner + (sparse ? real(c.experts) : 0));
  work.saved += n.rows * (real(c.width) * (sparse ? 2 : 1) + 2 * inner);
  work.peak = std::max(work.peak, n.rows * (2 * inner + (sparse ? 2 * real(c.routing.top_k * c.width) : 0)));
  return work;
}

Work unit_work(const LatentDecoderConfig& c, int64_t unit, const Sums& n) {
  Work work;
  if (unit == 0) return work;
  if (unit <= c.layers) return layer(c, unit - 1, n);
  if (c.is_mtp(unit)) {
    if (!c.trains_mtp) return work;
    work = layer(c, c.layers, n);
    work.linear += 4 * n.rows * real(c.width * c.width);
    work.saved += 5 * n.rows * real(c.width);
    return work;
  }
  const double supervised = n.supervised + (c.trains_mtp ? n.next : 0);
  work.linear = 2 * supervised * real(c.width) * real(c.vocabulary);
  work.saved = supervised * real(c.width);
  work.peak = std::min(3 * supervised * real(c.vocabulary), kLogitValues);
  return work;
}

}  // namespace

std::vector<double> features_of(std::span<const family::Sequence> sequences, int64_t top_k) {
  std::vector<double> sums(std::size(kFeatures), 0);
  for (const family::Sequence& sequence : sequences) {
    const double n = real(sequence.rows()), pairs = n * (n + 1) / 2;
    const double beyond = top_k > 0 ? std::max(n - real(top_k), 0.0) : 0;
    sums[kRows] += n;
    sums[kLossWeight] += real(sequence.supervised());
    sums[kPairs] += pairs;
    sums[kSelectedPairs] += pairs - beyond * (beyond + 1) / 2;
    sums[kMtpWeight] += real(supervised_later(sequence));
  }
  return sums;
}

lf_cost cost_of(const LatentDecoderConfig& config, uint32_t unit, std::span<const double> atoms, int64_t value_bytes) {
  if (unit >= config.n_units()) throw sdk::Failure(LF_E_INVALID, fmt::format("cost: there is no unit {}", unit));
  const auto sums = family::totals<std::size(kFeatures)>(atoms);
  const Work work =
      unit_work(config, unit, {sums[kRows], sums[kLossWeight], sums[kPairs], sums[kSelectedPairs], sums[kMtpWeight]});
  auto cost = sdk::with_header<lf_cost>();
  const bool learns = !config.warms_up();  // else only the indexers do: their few products are counted forward
  cost.forward_flops = work.linear + work.forward;
  cost.input_flops = learns ? work.linear + work.backward : 0;
  cost.weight_flops = learns ? work.linear : 0;
  const double bytes = real(value_bytes);
  cost.saved_bytes = static_cast<int64_t>(work.saved * bytes);
  cost.peak_bytes = static_cast<int64_t>(work.peak * bytes);
  const bool last = unit + 1 == config.n_units();
  cost.out_bytes = last ? 0 : static_cast<int64_t>(sums[kRows] * real(config.width) * bytes);
  return cost;
}

}  // namespace lf::deepseek
