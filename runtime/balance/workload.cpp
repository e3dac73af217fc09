#include "balance/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "balance/random.h"
#include "core/error.h"

namespace lf {
namespace {

// ---- distributions (docs/benchmarks/balancing.md says where each comes from) ---------------------------------------

struct Histogram {  // tiles per sample, and quantiles of a sample's decoder tokens, image tokens included
  std::string_view name;
  std::array<std::pair<int, double>, 4> tiles;  // tile count, samples
  std::array<double, 6> tokens;                 // at kQuantiles
};
constexpr std::array<double, 6> kQuantiles = {0.05, 0.25, 0.50, 0.75, 0.95, 0.99};
constexpr int64_t kTilePatches = 1024;  // 448 x 448 pixels in patches of 14
constexpr int64_t kTileTokens = 256;
constexpr std::array<Histogram, 4> kVqa = {{
    {"ai2d", {{{1, 5793}, {3, 3710}, {4, 603}, {5, 2307}}}, {299, 309, 811, 843, 1338, 1355}},
    {"chartqa", {{{1, 579}, {3, 1096}, {4, 14}, {5, 16628}}}, {843, 1322, 1328, 1369, 1496, 1601}},
    {"docvqa", {{{1, 15}, {3, 1895}, {4, 35}, {5, 8266}}}, {897, 1353, 1475, 1623, 1950, 2128}},
    {"synthdog", {{{3, 17276}, {5, 12489}, {5, 0}, {5, 0}}}, {838, 877, 952, 1372, 1441, 1497}},
}};

WorkSample sample_of(int64_t text_tokens, int64_t patches = 0, int64_t frames = 0) {
  WorkSample sample;
  sample.text_tokens = text_tokens;
  sample.vision_patches = patches;
  sample.frames = frames;
  return sample;
}

int64_t clipped_lognormal(Random& random, double mu, double sigma, double least, double most) {
  return std::llround(std::clamp(random.lognormal(mu, sigma), least, most));
}

// Lognormal by its mean: mu = ln mean - sigma^2 / 2.
int64_t with_mean(Random& random, double mean, double sigma, double least, double most) {
  return clipped_lognormal(random, std::log(mean) - sigma * sigma / 2, sigma, least, most);
}

double quantile(const Histogram& set, double u) {
  if (u <= kQuantiles.front()) return set.tokens.front();
  for (size_t i = 1; i < kQuantiles.size(); ++i)
    if (u <= kQuantiles[i]) {
      const double share = (u - kQuantiles[i - 1]) / (kQuantiles[i] - kQuantiles[i - 1]);
      return set.tokens[i - 1] + share * (set.tokens[i] - set.tokens[i - 1]);
    }
  return set.tokens.back();
}

// Tiles and tokens of a set are drawn with one number: samples of more tiles are those of more tokens.
WorkSample vqa(Random& random, const Histogram& set) {
  const double u = random.uniform();
  double total = 0, below = 0;
  for (const auto& [tiles, count] : set.tiles) total += count;
  int tiles = set.tiles.front().first;
  for (const auto& [some, count] : set.tiles) {
    if (u * total >= below) tiles = some;
    below += count;
    if (u * total < below) break;
  }
  const int64_t text = std::llround(quantile(set, u)) - tiles * kTileTokens;
  return sample_of(std::max<int64_t>(text, 16), tiles * kTilePatches, tiles);
}

WorkSample stress_text(Random& random) {
  constexpr double kLongest = 131072, kLongFrom = 8192;
  if (random.uniform() < 0.05)
    return sample_of(std::llround(kLongFrom * std::exp(random.uniform() * std::log(kLongest / kLongFrom))));
  return sample_of(clipped_lognormal(random, std::log(1500.0), 1.2, 16, kLongest));
}

WorkSample stress_video(Random& random) {
  const int64_t frames = clipped_lognormal(random, std::log(16.0), 0.8, 1, 128);
  return sample_of(clipped_lognormal(random, std::log(100.0), 1.0, 16, 1024), frames * kTilePatches, frames);
}

struct Manual {
  int32_t text_tokens, patches, pictures;
};
constexpr Manual kManual[] = {
#include "balance/manual_samples.inc"
};

WorkSample draw(std::string_view name, Random& random) {
  if (name == "D1") return sample_of(with_mean(random, 1024, 1.5, 128, 8192));
  if (name == "D1-skewed") return sample_of(with_mean(random, 768, 1.8, 128, 8192));
  if (name == "D2") return sample_of(clipped_lognormal(random, 5.0, 1.0, 16, 1024));
  if (name == "D3") return sample_of(clipped_lognormal(random, 6.909, 0.814, 16, 131072));
  if (name == "D3-long") return sample_of(clipped_lognormal(random, 7.058, 1.269, 16, 131072));
  if (name == "D4") return vqa(random, kVqa[random.below(kVqa.size())]);
  for (const Histogram& set : kVqa)
    if (name == "D4-" + std::string(set.name)) return vqa(random, set);
  if (name == "D5") return stress_text(random);
  if (name == "D5-video") return stress_video(random);
  if (name == "D6") {
    const Manual& sample = kManual[random.below(std::size(kManual))];
    return sample_of(sample.text_tokens, sample.patches, sample.pictures);
  }
  if (name == "joint") {  // 30% text alone, the others from the four VQA sets
    if (random.uniform() < 0.3) return sample_of(with_mean(random, 1024, 1.5, 128, 4096));
    return vqa(random, kVqa[random.below(kVqa.size())]);
  }
  if (name == "video10") {  // one sample in ten is a video
    if (random.uniform() < 0.1) return stress_video(random);
    return vqa(random, kVqa[random.below(kVqa.size())]);
  }
  std::string known;
  for (const std::string& one : synthetic_names()) known += (known.empty() ? "" : ", ") + one;
  fail(Exit::kUsage, "--synthetic: expected one of {}; got {}", known, name);
}

// ---- costs ---------------------------------------------------------------------------------------------------------

struct NamedCost {
  std::string_view name;
  CostShape decoder, encoder;
};
// Decoders: Llama 3.2 1B, Llama 3 8B, Llama 3 70B; 20B: InternLM2-20B. Encoders: InternViT-6B, a 0.6B tower.
constexpr CostShape k1B{2048, 60.8e6, 16}, k8B{4096, 218e6, 32}, k70B{8192, 856e6, 80}, k20B{6144, 378e6, 48};
constexpr CostShape kVision6B{3200, 123e6, 45}, kVision600M{1280, 19.7e6, 32};
constexpr std::array<NamedCost, 5> kCosts = {
    {{"1B", k1B, {}}, {"8B", k8B, {}}, {"70B", k70B, {}}, {"6B+20B", k20B, kVision6B}, {"0.6B+8B", k8B, kVision600M}}};

}  // namespace

std::vector<std::string> synthetic_names() {
  return {"D1",        "D1-skewed",   "D2", "D3",       "D3-long", "D4",    "D4-ai2d", "D4-chartqa",
          "D4-docvqa", "D4-synthdog", "D5", "D5-video", "D6",      "joint", "video10"};
}

std::vector<WorkSample> synthetic_samples(std::string_view distribution, size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<WorkSample> samples;
  samples.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    samples.push_back(draw(distribution, random));
    samples.back().id = std::to_string(i);
  }
  return samples;
}

int64_t WorkCost::tokens(const WorkSample& sample) const {
  if (sample.measured) return sample.measured->rows;
  return sample.text_tokens + (sample.vision_patches + patches_per_token - 1) / patches_per_token;
}

WorkParts WorkCost::parts(const WorkSample& sample) const {
  const auto length = static_cast<double>(tokens(sample));
  WorkParts parts;
  parts.decoder_rows = decoder.layers * 2 * decoder.layer_parameters * length;
  parts.pairs = decoder.layers * 2 * decoder.width * length * length;
  parts.head = head * static_cast<double>(sample.supervised());
  if (sample.frames <= 0 || sample.vision_patches <= 0) return parts;
  const auto frames = static_cast<double>(sample.frames);
  const auto patches = static_cast<double>(sample.vision_patches / sample.frames);
  const double windowed = encoder.window > 0 ? std::max(0.0, encoder.layers - encoder.whole_layers) : 0;
  parts.encoder_rows = frames * encoder.layers * 2 * encoder.layer_parameters * patches;
  parts.frame_pairs = frames * (encoder.layers - windowed) * 4 * encoder.width * patches * patches;
  parts.window_pairs =
      frames * windowed * 4 * encoder.width * patches * std::min(patches, static_cast<double>(encoder.window));
  return parts;
}

double WorkCost::decode(const WorkSample& sample) const {
  const auto length = static_cast<double>(tokens(sample));
  if (quadratic > 0 || linear > 0) return quadratic * length * length + linear * length + per_sample;
  const WorkParts of = parts(sample);
  return of.decoder_rows + of.pairs + of.head + per_sample;
}

double WorkCost::encode_frame(int64_t patches) const {
  const WorkParts of = parts(sample_of(0, patches, 1));
  return of.encoder_rows + of.frame_pairs + of.window_pairs;
}

double WorkCost::encode(const WorkSample& sample) const {
  if (sample.frames <= 0 || sample.vision_patches <= 0) return 0;
  const WorkParts of = parts(sample);
  return of.encoder_rows + of.frame_pairs + of.window_pairs;
}

WorkCost named_cost(std::string_view name) {
  std::string known;
  for (const NamedCost& cost : kCosts) {
    if (cost.name == name) return WorkCost{cost.decoder, cost.encoder};
    known += (known.empty() ? "" : ", ") + std::string(cost.name);
  }
  fail(Exit::kUsage, "--cost: expected one of {}, or A,B,C for A*L^2 + B*L + C; got {}", known, name);
}

std::vector<std::string> cost_names() {
  std::vector<std::string> names;
  for (const NamedCost& cost : kCosts) names.emplace_back(cost.name);
  return names;
}

}  // namespace lf
