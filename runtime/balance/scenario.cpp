#include "balance/scenario.h"

#include <algorithm>
#include <cmath>

namespace lf {
namespace {

// Arrival of one replica's samples [begin, end): micro-batch k starts where k / M of the tokens are behind it; each
// gets at least one sample as long as there are some.
void cut(const std::vector<int64_t>& rows, size_t begin, size_t end, int32_t micro_batches, int32_t* place) {
  int64_t total = 0, before = 0;
  for (size_t i = begin; i < end; ++i) total += rows[i];
  int32_t k = 0;
  size_t first = begin;  // of micro-batch k
  for (size_t i = begin; i < end; ++i) {
    const int64_t middle = 2 * before + rows[i];  // twice, to stay whole
    const size_t rest = end - i;
    while (k + 1 < micro_batches && i > first &&
           (middle * micro_batches >= 2 * total * (k + 1) || rest <= static_cast<size_t>(micro_batches - 1 - k))) {
      ++k;
      first = i;
    }
    place[i] = k;
    before += rows[i];
  }
}

// Number of the pack of each sample, in order.
template <typename Rows>
std::vector<int64_t> pack_numbers(size_t count, const Rows& rows, int64_t pack) {
  std::vector<int64_t> numbers(count);
  int64_t number = 0, filled = 0;
  for (size_t i = 0; i < count; ++i) {
    if (filled > 0 && filled + rows(i) > pack) ++number, filled = 0;
    filled += rows(i);
    numbers[i] = number;
  }
  return numbers;
}

void arrive_by_count(const Scenario& scenario, BalancePart& part) {
  const size_t n = part.rows.size();
  for (int32_t r = 0; r < scenario.replicas; ++r) {
    const size_t begin = n * r / scenario.replicas, end = n * (r + 1) / scenario.replicas;
    std::fill(part.arrival_replica.begin() + begin, part.arrival_replica.begin() + end, r);
    cut(part.rows, begin, end, scenario.micro_batches, part.arrival_micro_batch.data());
  }
}

// Fewer packs than micro-batches: as training does, the fullest are halved until none is empty that need not be.
void halve_fullest_packs(std::vector<int64_t>& packs, int64_t slots) {
  if (packs.empty()) return;
  std::vector<size_t> counts(static_cast<size_t>(packs.back() + 1), 0);
  for (const int64_t pack : packs) ++counts[static_cast<size_t>(pack)];
  while (counts.size() < static_cast<size_t>(slots)) {
    const auto fullest = std::ranges::max_element(counts);
    if (*fullest < 2) break;
    const size_t half = *fullest / 2;
    *fullest -= half;
    counts.insert(fullest + 1, half);
  }
  size_t i = 0;
  for (size_t pack = 0; pack < counts.size(); ++pack)
    for (size_t n = 0; n < counts[pack]; ++n) packs[i++] = static_cast<int64_t>(pack);
}

// More packs than micro-batches (the samples are more than one step's): the last one takes them.
void arrive_in_packs(const Scenario& scenario, BalancePart& part) {
  const int64_t slots = static_cast<int64_t>(scenario.replicas) * scenario.micro_batches;
  std::vector<int64_t> packs = pack_numbers(
      part.rows.size(), [&](size_t i) { return part.rows[i]; }, scenario.pack);
  halve_fullest_packs(packs, slots);
  for (size_t i = 0; i < packs.size(); ++i) {
    const auto slot = static_cast<int32_t>(std::min(packs[i], slots - 1));
    part.arrival_replica[i] = slot / scenario.micro_batches;
    part.arrival_micro_batch[i] = slot % scenario.micro_batches;
  }
}

bool is_seen(const WorkSample& sample) {
  return sample.measured ? sample.measured->encoder_seconds > 0 : sample.frames > 0 && sample.vision_patches > 0;
}

BalancePart vision_part(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario,
                        const BalancePart& language) {
  BalancePart part;
  part.name = "vision";
  part.tied = !scenario.frames_are_atoms;
  for (size_t i = 0; i < samples.size(); ++i) {
    const WorkSample& sample = samples[i];
    if (!is_seen(sample)) continue;
    const int64_t atoms = scenario.frames_are_atoms ? std::max<int64_t>(1, sample.frames) : 1;
    const double whole =
        sample.measured ? sample.measured->encoder_seconds : cost.encode(sample) / scenario.flops_per_second;
    const double seconds = whole / static_cast<double>(atoms);
    for (int64_t a = 0; a < atoms; ++a) {
      part.sample.push_back(i);
      part.seconds.push_back(seconds);
      part.rows.push_back(sample.vision_patches / atoms);
      part.bytes.push_back(0);
      part.arrival_replica.push_back(language.arrival_replica[i]);
      part.arrival_micro_batch.push_back(language.arrival_micro_batch[i]);
    }
  }
  return part;
}

}  // namespace

size_t samples_per_step(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario) {
  if (scenario.pack <= 0) return samples.size();
  const std::vector<int64_t> packs = pack_numbers(
      samples.size(), [&](size_t i) { return cost.tokens(samples[i]); }, scenario.pack);
  const int64_t slots = static_cast<int64_t>(scenario.replicas) * scenario.micro_batches;
  return static_cast<size_t>(std::ranges::lower_bound(packs, slots) - packs.begin());
}

BalanceInput scenario_input(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario) {
  BalanceInput input;
  input.objective = scenario.objective;
  input.replicas = scenario.replicas;
  input.micro_batches = scenario.micro_batches;
  input.n_samples = samples.size();

  BalancePart language;
  language.name = "language";
  int64_t total = 0, longest = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t rows = cost.tokens(samples[i]);
    language.sample.push_back(i);
    language.seconds.push_back(samples[i].measured ? samples[i].measured->decoder_seconds
                                                   : cost.decode(samples[i]) / scenario.flops_per_second);
    language.rows.push_back(rows);
    total += rows;
    longest = std::max(longest, rows);
  }
  language.bytes.assign(samples.size(), 0);
  constexpr double kMostRows = 9e15;  // whole in a double; no step has more
  if (scenario.cap > 0)
    language.row_limit =
        std::max<int64_t>({longest, scenario.pack, 1,
                           std::llround(std::floor(std::min(
                               kMostRows, scenario.cap * static_cast<double>(total) /
                                              (static_cast<double>(scenario.replicas) * scenario.micro_batches))))});
  language.arrival_replica.resize(samples.size());
  language.arrival_micro_batch.resize(samples.size());
  scenario.pack > 0 ? arrive_in_packs(scenario, language) : arrive_by_count(scenario, language);
  if (std::ranges::any_of(samples, is_seen)) input.parts.push_back(vision_part(samples, cost, scenario, language));
  input.parts.push_back(std::move(language));
  return input;
}

}  // namespace lf
