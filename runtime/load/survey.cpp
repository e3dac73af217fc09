#include "load/survey.h"

#include <algorithm>
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
