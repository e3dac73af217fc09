#include "load/survey.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>

#include "core/amount.h"
#include "core/parallel.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "load/packing.h"
#include "load/verdict.h"

namespace lf {
namespace {

struct Looked {
  JudgedSample judged;
  int64_t rows_uncut = 0;
};

Looked look_at(const Dataset& dataset, const ModelCalls& model, const DataSection& options, uint64_t index) {
  DataSection whole = options;
  whole.max_tokens = INT64_MAX;
  Looked out{judge(dataset, model, whole, index, index), 0};
  if (!out.judged.usable()) return out;
  out.rows_uncut = out.judged.features.rows();
  if (out.rows_uncut > options.max_tokens) out.judged = judge(dataset, model, options, index, index);
  return out;
}

uint64_t column_bytes(const std::vector<lf_named_tensor>& columns) {
  uint64_t bytes = 0;
  for (const lf_named_tensor& column : columns)
    bytes += static_cast<uint64_t>(sdk::element_count(column.tensor) * sdk::item_bytes(column.tensor.dtype));
  return bytes;
}

// Of `looked_at` samples of which each is bad with probability `share`, at least `bad` are: the binomial's upper tail.
double chance_of_so_many(uint64_t bad, uint64_t looked_at, double share) {
  if (share <= 0) return bad == 0 ? 1 : 0;
  if (share >= 1) return 1;
  const auto n = static_cast<double>(looked_at);
  double chance = 0;
  for (uint64_t i = bad; i <= looked_at; ++i) {
    const auto k = static_cast<double>(i);
    chance += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(share) +
                       (n - k) * std::log1p(-share));
  }
  return chance;
}

}  // namespace

int64_t Survey::rows() const {
  int64_t sum = 0;
  for (const AtomFeatures& features : usable) sum += features.rows();
  return sum;
}

double Survey::loss_weight() const {
  double sum = 0;
  for (const AtomFeatures& features : usable) sum += features.loss_weight();
  return sum;
}

Survey survey(const Dataset& dataset, const ModelCalls& model, const DataSection& options, uint64_t most) {
  const uint64_t n = std::min(most, dataset.size());
  std::vector<Looked> looked(n);
  std::mutex mutex;
  std::exception_ptr error;
  parallel_pieces(options.workers, static_cast<int64_t>(n), [&](int64_t i) {
    try {
      // In parts, so that the product of two large numbers is never formed.
      const uint64_t k = static_cast<uint64_t>(i);
      looked[k] = look_at(dataset, model, options, dataset.size() / n * k + dataset.size() % n * k / n);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);

  Survey out;
  out.looked_at = n;
  for (Looked& one : looked) {
    JudgedSample& judged = one.judged;
    if (judged.verdict == Verdict::kBad) {
      if (out.bad++ == 0) out.first_bad = judged.reason;
      continue;
    }
    out.shortest = out.longest == 0 ? one.rows_uncut : std::min(out.shortest, one.rows_uncut);
    out.longest = std::max(out.longest, one.rows_uncut);
    out.too_long += judged.verdict == Verdict::kTooLong;
    out.cut += judged.verdict == Verdict::kCut;
    if (!judged.usable()) continue;
    out.usable_index.push_back(judged.index);
    out.usable.push_back(std::move(judged.features));
  }
  return out;
}

void require_trainable(const Survey& survey, const DataSection& options) {
  const std::string seen = counted(survey.looked_at, "sample");
  if (survey.bad == survey.looked_at)
    fail(Exit::kBadData, "data.path: each of {} looked at is bad; the first: {}", seen, survey.first_bad);
  if (too_many_bad(survey.bad, survey.looked_at, options.max_bad))
    fail(Exit::kBadData,
         "data.path: {} of {} looked at are bad, more than data.max_bad = {} allows; the first: {}; mend them or raise "
         "data.max_bad",
         survey.bad, seen, options.max_bad, survey.first_bad);
  if (survey.usable.empty())
    fail(Exit::kConfig,
         "data.max_tokens: each of {} looked at is longer than {}, so nothing would be trained; the shortest has {}: "
         "raise it at least to that",
         seen, counted(options.max_tokens, "token"), counted(survey.shortest, "token"));
  if (survey.loss_weight() == 0 && survey.cut > 0)
    fail(Exit::kConfig,
         "data.max_tokens: cut to {}, none of {} looked at keeps a token to learn from; raise it (the shortest has {}, "
         "the longest {})",
         counted(options.max_tokens, "token"), seen, counted(survey.shortest, "token"), survey.longest);
}

std::string foreseen_bad(const Survey& survey, const DataSection& options, uint64_t size, double samples) {
  constexpr double kByChance = 1e-3;
  const double share = static_cast<double>(survey.bad) / static_cast<double>(std::max<uint64_t>(1, survey.looked_at));
  if (survey.bad == 0 || size == 0) return "";
  const double allowed = most_allowed_bad(samples, options.max_bad);
  const double met_for_sure = std::floor(samples / static_cast<double>(size)) * static_cast<double>(survey.bad);
  // Where all were looked at, nothing is left to chance.
  const bool by_chance = survey.looked_at < size && samples > 0 &&
                         chance_of_so_many(survey.bad, survey.looked_at, allowed / samples) < kByChance;
  if (met_for_sure > allowed || by_chance)
    fail(
        Exit::kBadData,
        "data.path: expected at most {:.0f} bad of the {:.0f} samples that the run meets, as data.max_bad = {} allows, "
        "got {} bad of {} looked at ({:.3g}%): the run would end by them; the first: {}; mend them or raise "
        "data.max_bad",
        std::floor(allowed), samples, options.max_bad, survey.bad, survey.looked_at, 100 * share, survey.first_bad);
  if (share <= options.max_bad) return "";
  return fmt::format(
      "{} bad, {:.3g}% of those looked at, where data.max_bad is {}: the run passes over at most {:.0f} of the {:.0f} "
      "samples that it meets, and ends with code {} at more; the first: {}",
      survey.bad, 100 * share, options.max_bad, std::floor(allowed), samples, static_cast<int>(Exit::kBadData),
      survey.first_bad);
}

StepSize step_size(const Survey& survey, const Dataset& dataset, const ModelCalls& model, const DataSection& options,
                   int ranks) {
  StepSize out;
  if (survey.usable.empty()) return out;
  const double micro_batches = static_cast<double>(options.micro_batches) * ranks;
  const double per_micro_batch =
      options.packing ? std::max(1.0, static_cast<double>(options.max_tokens) / survey.mean_rows()) : 1;
  out.samples = micro_batches * per_micro_batch;
  const double usable = static_cast<double>(survey.usable.size()) / static_cast<double>(survey.looked_at);
  out.passes = out.samples / (usable * static_cast<double>(dataset.size()));

  // The longest is the one with most pictures, mostly.
  size_t at = 0;
  for (size_t i = 0; i < survey.usable.size(); ++i)
    if (survey.usable[i].rows() > survey.usable[at].rows()) at = i;
  const Sample sample = dataset.sample(survey.usable_index[at]);
  std::vector<lf_named_tensor> columns;
  try {
    columns = model.collate(std::vector<ModelCalls::Part>{{&sample, survey.usable[at].rows()}});
  } catch (const BadSample&) {  // its pixels are bad: named when its turn comes
    return out;
  }
  const double bytes_per_row =
      static_cast<double>(column_bytes(columns)) / static_cast<double>(survey.usable[at].rows());
  for (lf_named_tensor& column : columns) sdk::release(column.tensor);
  const double rows = out.samples / ranks * survey.mean_rows();
  out.bytes_per_rank = static_cast<uint64_t>(std::min(1e18, rows * bytes_per_row * (options.prefetch_steps + 1)));
  return out;
}

std::string step_size_warning(const StepSize& step, const DataSection& options, int local_ranks, uint64_t host_bytes) {
  const bool too_large = static_cast<double>(step.bytes_per_rank) * local_ranks > 0.5 * static_cast<double>(host_bytes);
  if (step.passes <= 1 && !too_large) return "";
  return fmt::format(
      "data.micro_batches = {} of data.max_tokens = {}: one step takes about {:.0f} samples, {:.2g} passes over the "
      "data; "
      "all are gathered before it starts, about {} for each rank{}; lower either",
      options.micro_batches, options.max_tokens, step.samples, step.passes, bytes_text(step.bytes_per_rank),
      too_large ? fmt::format(", and this host has {}", bytes_text(host_bytes)) : "");
}

}  // namespace lf
