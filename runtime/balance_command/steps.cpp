#include "balance_command/steps.h"

#include <algorithm>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "balance/random.h"
#include "balance/scenario.h"
#include "balance_command/cost_option.h"
#include "balance_command/samples_file.h"
#include "core/error.h"

namespace lf {
namespace {

// How many of `rest` make the next step.
size_t next_step(std::span<const WorkSample> rest, const BalanceOptions& options) {
  if (options.per_rank > 0)
    return std::min<size_t>(rest.size(), static_cast<size_t>(options.per_rank) * options.scenario.replicas);
  if (options.scenario.pack == 0) return rest.size();
  // A step's packs are looked for in a window that is surely small against a long file.
  const auto slots = static_cast<size_t>(options.scenario.replicas) * options.scenario.micro_batches;
  for (size_t window = 16 * slots;; window *= 2) {
    const size_t seen = std::min(window, rest.size());
    const size_t used = samples_per_step(rest.first(seen), options.cost, options.scenario);
    if (used < seen || seen == rest.size()) return used;
  }
}

bool is_fitted(const BalanceOptions& options) {
  return options.profile.fitted && !options.given.contains("flops") && !is_in_seconds(options.cost);
}

void add_note(std::string& note, const std::string& more) { note += (note.empty() ? "" : "; ") + more; }

// Without one, pictures would look as if they cost nothing but their tokens.
void note_missing_encoder(const std::vector<WorkSample>& samples, const BalanceOptions& options, std::string& note) {
  if (options.cost.encoder.layers > 0 || is_in_seconds(options.cost)) return;
  if (std::ranges::none_of(samples, [](const WorkSample& sample) { return sample.vision_patches > 0; })) return;
  add_note(note, fmt::format("{} has no encoder: a picture costs what its tokens cost in the decoder; --cost 0.6B+8B "
                             "or --model counts both",
                             options.cost_name));
}

void note_draws(const BalanceOptions& options, std::string& note) {
  if (options.scaling.empty()) return;
  add_note(note, options.per_rank > 0
                     ? fmt::format("every step draws {} samples a rank from them, with replacement", options.per_rank)
                     : "every step draws from them, with replacement, until its packs are full");
}

// As training would meet them: not longer than a pack, and at what they were fitted to take.
void prepare(std::vector<WorkSample>& samples, const BalanceOptions& options, std::string& note) {
  if (options.scenario.pack > 0) {
    const std::string limited = limit_lengths(samples, options.cost, options.scenario.pack, options.cuts);
    if (!limited.empty()) add_note(note, limited);
  }
  if (is_fitted(options)) calibrate(samples, options.cost, *options.profile.fitted);
}

std::string described_costs(const BalanceOptions& options) {
  if (is_fitted(options))
    return fmt::format("{} as a run of {} ranks fitted them in {} steps: {} of its typical step", options.cost_name,
                       options.profile.fitted->ranks, options.profile.fitted->steps,
                       options.profile.fitted->description);
  if (is_in_seconds(options.cost)) return options.cost_name;
  return fmt::format("operations of {} at {:.3g} a second", options.cost_name, options.profile.flops_per_second);
}

// Costs of an operation carry over to another size of the same family, and what a step reduces does not. Words of
// another width make a factor of 2, which says nothing.
void note_other_size(const Profile& profile, JobSamples& job) {
  const double most = std::max(profile.gradient_bytes, job.gradient_bytes),
               least = std::min(profile.gradient_bytes, job.gradient_bytes);
  if (least > 0 && most > 3 * least)
    add_note(job.note, fmt::format("the profile is of a run that reduced {:.3g} bytes of gradients and this job trains "
                                   "{:.3g}: costs are taken by operation, communication is the profile's",
                                   profile.gradient_bytes, job.gradient_bytes));
}

// The job's own policy is among those compared, with the job's settings below those of --option.
void take_policy(BalanceOptions& options, const JobSamples& job) {
  const bool listed = std::ranges::find(options.policies, job.policy) != options.policies.end();
  if (!listed && (job.policy.empty() || options.given.contains("policy"))) return;
  if (!listed) options.policies.push_back(job.policy);
  nlohmann::json settings = nlohmann::json::parse(job.policy_options, nullptr, false);
  if (!settings.is_object() || settings.empty()) return;
  if (const auto flags = options.policy_options.find(job.policy); flags != options.policy_options.end())
    settings.update(nlohmann::json::parse(flags->second));
  options.policy_options[job.policy] = settings.dump();
}

// What the job says, where no flag says otherwise.
Source source_of_job(BalanceOptions& options, const JobReader& read_job) {
  JobSamples job = read_job(options.job, options.sets);
  const auto given = [&](const char* flag) { return options.given.contains(flag); };
  Scenario& scenario = options.scenario;
  if (!given("ranks")) scenario.replicas = job.ranks;
  if (!given("micro-batches")) scenario.micro_batches = job.micro_batches;
  if (!given("cap")) scenario.cap = 1;  // a pack is the limit
  if (!given("pack") && !given("per-rank")) {
    if (job.packing)
      scenario.pack = job.max_tokens;
    else
      options.per_rank = scenario.micro_batches;
  }
  if (!given("profile")) options.profile.gradient_bytes = job.gradient_bytes;
  options.cost_name = job.model;
  take_policy(options, job);
  if (given("flops")) options.profile.fitted.reset();
  calibrate(job, options.profile);
  note_other_size(options.profile, job);
  note_draws(options, job.note);
  return {std::move(job.samples), described_costs(options), std::move(job.note)};
}

// What is left at the end and makes no whole step is not counted, unless it is all there is.
Steps cut_into_steps(const std::vector<WorkSample>& samples, const BalanceOptions& options) {
  Steps steps;
  std::span<const WorkSample> rest(samples);
  while (!rest.empty()) {
    const size_t count = next_step(rest, options);
    const bool last = count == rest.size();
    const bool whole = options.per_rank > 0 ? count == static_cast<size_t>(options.per_rank) * options.scenario.replicas
                                            : options.scenario.pack == 0 || !last;
    if (whole || steps.empty()) steps.emplace_back(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(count));
    rest = rest.subspan(count);
  }
  return steps;
}

// `draw(count, seed)` -> samples.
template <typename Draw>
std::vector<WorkSample> draw_step(const BalanceOptions& options, const Draw& draw) {
  const auto slots = static_cast<size_t>(options.scenario.replicas) * options.scenario.micro_batches;
  if (options.per_rank > 0)
    return draw(static_cast<size_t>(options.per_rank) * options.scenario.replicas, options.seed);
  for (size_t count = 16 * slots;; count *= 2) {  // until a step's packs are full
    if (count > static_cast<size_t>(kMostDrawn))
      fail(Exit::kUsage, "lfrun balance: --pack: {} samples do not fill packs of {} tokens; lower it", kMostDrawn,
           options.scenario.pack);
    std::vector<WorkSample> samples = draw(count, options.seed);
    const size_t used = samples_per_step(samples, options.cost, options.scenario);
    if (used == samples.size()) continue;
    samples.resize(used);
    return samples;
  }
}

// With replacement from a file: as a distribution, where more ranks need more samples than it has.
auto drawn_from(const Source& source, const BalanceOptions& options) {
  return [&source, &options](size_t count, uint64_t seed) {
    if (source.file.empty()) {
      std::vector<WorkSample> drawn = synthetic_samples(options.synthetic, count, seed);
      std::string unsaid;  // source_of has said it
      prepare(drawn, options, unsaid);
      return drawn;
    }
    Random random(seed);
    std::vector<WorkSample> samples;
    samples.reserve(count);
    for (size_t i = 0; i < count; ++i) samples.push_back(source.file[random.below(source.file.size())]);
    return samples;
  };
}

void shuffle(std::vector<WorkSample>& samples, uint64_t seed) {
  Random random(seed);
  for (size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[random.below(i)]);
}

}  // namespace

Source source_of(BalanceOptions& options, const JobReader& read_job) {
  if (!options.job.empty()) return source_of_job(options, read_job);
  Source source{{}, described_costs(options), ""};
  if (!options.synthetic.empty()) {
    constexpr size_t kFew = 256;
    note_missing_encoder(synthetic_samples(options.synthetic, kFew, options.seed), options, source.note);
    return source;
  }
  SampleFile file = read_samples(options.samples, options.image_max_pixels);
  source = {std::move(file.samples), std::move(source.costs), std::move(file.note)};
  prepare(source.file, options, source.note);
  note_missing_encoder(source.file, options, source.note);
  note_draws(options, source.note);
  return source;
}

Steps steps_of(Source& source, const BalanceOptions& options) {
  if (source.file.empty()) return {drawn_step(source, options)};
  shuffle(source.file, options.seed);
  return cut_into_steps(source.file, options);
}

std::vector<WorkSample> drawn_step(const Source& source, const BalanceOptions& options) {
  return draw_step(options, drawn_from(source, options));
}

}  // namespace lf
