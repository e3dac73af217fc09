#include "check/job_samples.h"

#include <algorithm>

#include "config/config.h"
#include "core/amount.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/stream/stream_set.h"
#include "load/cost_terms.h"
#include "load/survey.h"
#include "model/parameter_store.h"
#include "train/session.h"

namespace lf {
namespace {

constexpr uint64_t kMostSamples = 20'000;

double trained_bytes(const Description& description, const JobConfig& config) {
  const Freezing freezing = freeze(description, config.model.freeze, config.lora.also_train);
  int64_t elements = 0;
  for (size_t p = 0; p < description.parameters.size(); ++p)
    if (description.parameters[p].tied_to < 0 && !freezing.frozen[p])
      elements += element_count(description.parameters[p]);
  return static_cast<double>(elements) * sizeof(float);
}

void add(JobSamples& job, const ModelCalls& calls, const CostTerms& terms, const AtomFeatures& features,
         const std::string& id) {
  WorkSample sample;
  sample.id = id;
  sample.text_tokens = features.rows();
  std::vector<double> operations;
  for (uint32_t c = 0; c < calls.components().size(); ++c) {
    const size_t width = terms.components()[c].terms.size();
    std::vector<double> amounts;
    for (uint32_t atom = 0; atom < features.atoms[c]; ++atom)
      terms.append(c, features.numbers[c].data() + size_t{atom} * calls.components()[c].n_features, amounts);
    if (c + 1 < calls.components().size()) sample.frames += features.atoms[c];
    std::vector<double> sums(width, 0.0);
    for (size_t i = 0; i < amounts.size(); ++i) sums[i % width] += amounts[i];
    operations.insert(operations.end(), sums.begin(), sums.end());
  }
  job.samples.push_back(std::move(sample));
  job.operations.insert(job.operations.end(), operations.begin(), operations.end());
}

JobSamples read(const JobConfig& config) {
  if (is_streamed(config.data))
    fail(Exit::kUsage,
         "data.path: a stream is read once, by the run; give lfrun balance a file of samples (CSV or JSONL) instead");
  SessionOptions opening;
  opening.open_policy = false;
  opening.open_device = false;
  const Session session(config, opening);
  const Dataset dataset(config.data);
  const ModelCalls calls(session.model->api(), session.model->handle());
  const CostTerms terms(calls);
  const Survey seen = survey(dataset, calls, config.data, kMostSamples);
  require_trainable(seen, config.data);

  JobSamples job;
  for (const ComponentTerms& component : terms.components())
    for (const CostTerm& term : component.terms) job.terms.push_back(term.name);
  job.last_terms = terms.components().back().terms.size();
  for (size_t i = 0; i < seen.usable.size(); ++i)
    add(job, calls, terms, seen.usable[i], dataset.place(seen.usable_index[i]));
  job.max_tokens = config.data.max_tokens;
  job.ranks = std::max(1, config.launch.processes);
  job.micro_batches = static_cast<int32_t>(config.data.micro_batches);
  job.packing = config.data.packing;
  job.gradient_bytes = trained_bytes(session.model->description(), config);
  job.model = session.model->plugin_id();
  job.policy = config.balance.policy;
  job.policy_options = option_json(config, "balance.options").value_or("{}");
  job.note = fmt::format("{} of {}, as {} counts them: {:.0f} tokens on average", counted(seen.usable.size(), "sample"),
                         dataset.size(), job.model, seen.mean_rows());
  if (seen.cut > 0) job.note += fmt::format("; {} cut to {} tokens", seen.cut, config.data.max_tokens);
  if (seen.too_long > 0)
    job.note += fmt::format("; {} of more than {} tokens left out", seen.too_long, config.data.max_tokens);
  if (config.balance.unit == "pack") job.note += "; samples are planned, and not whole packs as balance.unit says";
  if (seen.bad > 0) job.note += fmt::format("; {} bad, the first: {}", seen.bad, seen.first_bad);
  return job;
}

}  // namespace

JobSamples read_job_samples(const std::filesystem::path& file, const std::vector<std::string>& sets,
                            const PluginPlaces& places) {
  JobSource source;
  source.file = file;
  for (const std::string& set : sets) source.overrides.push_back({set});
  ResolvedJob job = resolve_job(source);
  job.config.plugins = places;
  require_inputs(job);
  try {
    return read(job.config);
  } catch (const Error& error) {
    throw Error(error.exit(), with_origins(job, error.what()));
  }
}

}  // namespace lf
