#include "balance/balance_command.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "balance/balance_options.h"
#include "balance/calibration.h"
#include "balance/evaluate.h"
#include "balance/picture.h"
#include "balance/random.h"
#include "balance/samples_file.h"
#include "balance/trigger.h"
#include "core/error.h"

namespace lf {
namespace {

// A policy over all steps: sums, and the seconds of every replica in all of them.
struct Row {
  std::string policy;
  double makespan = 0, mean = 0, lower_bound = 0, plan_ms = 0;
  int64_t tokens = 0, moved_tokens = 0, empty_slots = 0, cap_breaches = 0, steps = 0, planned = 0;
  double noisy = 0;  // makespan with what a machine's noise adds to the slowest
  std::string remedy;
  std::vector<double> replica_seconds;
  double gap() const { return lower_bound > 0 ? makespan / lower_bound - 1 : 0; }
};

constexpr int kTimedCalls = 3;

using Steps = std::vector<std::vector<WorkSample>>;

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

// Where the samples come from, and what was done to them.
struct Source {
  std::vector<WorkSample> file;  // empty: drawn from a distribution
  std::string costs, note;
};

bool is_fitted(const BalanceOptions& options) {
  return options.profile.fitted && !options.given.contains("flops") &&
         options.cost.quadratic + options.cost.linear == 0;
}

// As training would meet them: not longer than a pack, and at what they were fitted to take.
void prepare(std::vector<WorkSample>& samples, const BalanceOptions& options, std::string& note) {
  if (options.scenario.pack > 0) {
    const std::string limited = limit_lengths(samples, options.cost, options.scenario.pack, options.cuts);
    if (!limited.empty()) note += (note.empty() ? "" : "; ") + limited;
  }
  if (is_fitted(options)) calibrate(samples, options.cost, *options.profile.fitted);
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
Steps draw_steps(const BalanceOptions& options, const Draw& draw) {
  const auto slots = static_cast<size_t>(options.scenario.replicas) * options.scenario.micro_batches;
  if (options.per_rank > 0)
    return {draw(static_cast<size_t>(options.per_rank) * options.scenario.replicas, options.seed)};
  constexpr size_t kMostDrawn = size_t{1} << 27;
  for (size_t count = 16 * slots;; count *= 2) {  // until a step's packs are full
    if (count > kMostDrawn)
      fail(Exit::kUsage, "lfrun balance: --pack: {} samples do not fill packs of {} tokens; lower it", kMostDrawn,
           options.scenario.pack);
    std::vector<WorkSample> samples = draw(count, options.seed);
    const size_t used = samples_per_step(samples, options.cost, options.scenario);
    if (used == samples.size()) continue;
    samples.resize(used);
    return {samples};
  }
}

// With replacement from a file: as a distribution, where more ranks need more samples than it has.
auto drawn_from(const Source& source, const BalanceOptions& options) {
  return [&source, &options](size_t count, uint64_t seed) {
    if (source.file.empty()) {
      std::vector<WorkSample> drawn = synthetic_samples(options.synthetic, count, seed);
      std::string unsaid;
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

// The arrival where the trigger holds a plan back.
Outcome outcome_of(const Policy& policy, const BalanceInput& input, double trigger, bool& planned) {
  planned = weigh(input, 0).imbalance() > trigger || trigger == 0;
  if (planned) {
    Outcome outcome = evaluate(policy, input);
    // The fastest of a few calls: what else the machine does is not the policy's time.
    for (int again = 1; again < kTimedCalls; ++again)
      outcome.plan_ms = std::min(outcome.plan_ms, evaluate(policy, input).plan_ms);
    return outcome;
  }
  std::vector<lf_assignment> places;
  for (const BalancePart& part : input.parts)
    for (size_t i = 0; i < part.sample.size(); ++i)
      places.push_back({part.arrival_replica[i], part.arrival_micro_batch[i], 0, 0});
  return assess(input, std::move(places));
}

std::vector<Row> compare(const Steps& steps, const BalanceOptions& options, const PolicyMaker& make_policy) {
  std::vector<Row> rows;
  std::vector<double> bounds(steps.size(), 0.0);  // the best of any policy's certificates holds for all
  for (const std::string& name : options.policies) {
    const auto settings = options.policy_options.find(name);
    const Policy policy = make_policy(name, settings == options.policy_options.end() ? "" : settings->second);
    Row row;
    row.policy = name;
    row.replica_seconds.assign(options.scenario.replicas, 0.0);
    for (size_t s = 0; s < steps.size(); ++s) {
      const BalanceInput input = scenario_input(steps[s], options.cost, options.scenario);
      bool planned = false;
      const Outcome outcome = outcome_of(policy, input, options.trigger, planned);
      bounds[s] = std::max(bounds[s], outcome.certificate.lower_bound);
      row.makespan += outcome.certificate.objective;
      row.mean += outcome.certificate.mean;
      row.plan_ms += outcome.plan_ms;
      row.tokens += outcome.tokens;
      row.moved_tokens += outcome.moved_tokens;
      row.empty_slots += outcome.empty_slots;
      row.cap_breaches += outcome.cap_breaches;
      row.planned += planned;
      if (!outcome.certificate.remedy.empty()) row.remedy = outcome.certificate.remedy;
      std::vector<double> seconds(options.scenario.replicas, 0.0);
      for (size_t p = 0; p < input.parts.size(); ++p) {
        const std::vector<double> slots = slot_seconds(input, p, outcome.assignments);
        for (size_t slot = 0; slot < slots.size(); ++slot)
          seconds[slot / options.scenario.micro_batches] += slots[slot];
      }
      if (!options.scaling.empty())
        row.noisy +=
            outcome.certificate.objective * slowdown_by_noise(seconds, options.profile.noise, options.seed + s);
      for (size_t r = 0; r < seconds.size(); ++r) row.replica_seconds[r] += seconds[r];
    }
    row.steps = static_cast<int64_t>(steps.size());
    rows.push_back(std::move(row));
  }
  for (Row& row : rows) row.lower_bound = std::accumulate(bounds.begin(), bounds.end(), 0.0);
  return rows;
}

nlohmann::ordered_json to_json(const Row& row) {
  return {
      {"makespan", row.makespan},
      {"mean", row.mean},
      {"lower_bound", row.lower_bound},
      {"gap", row.gap()},
      {"moved_tokens", row.moved_tokens},
      {"moved_share", row.tokens > 0 ? static_cast<double>(row.moved_tokens) / static_cast<double>(row.tokens) : 0.0},
      {"plan_ms", row.plan_ms},
      {"empty_slots", row.empty_slots},
      {"cap_breaches", row.cap_breaches},
      {"planned_steps", row.planned},
      {"remedy", row.remedy}};
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) fail(Exit::kCannotCreate, "--plot: {} cannot be written; choose another place", path.string());
}

// minimax, unless another is better by more than a plan's own tolerance.
const Row& recommended(const std::vector<Row>& rows) {
  const auto best = std::ranges::min_element(rows, {}, &Row::makespan);
  const auto ours = std::ranges::find(rows, "minimax", &Row::policy);
  return ours != rows.end() && ours->makespan <= best->makespan * 1.001 ? *ours : *best;
}

void write_table(const std::vector<Row>& rows, std::ostream& out) {
  out << fmt::format("{:<16}{:>12}{:>12}{:>12}{:>9}{:>9}{:>9}{:>10}{:>7}{:>10}\n", "policy", "makespan", "bound",
                     "mean", "max/mean", "gap", "moved", "plan ms", "empty", "breaches");
  for (const Row& row : rows)
    out << fmt::format(
        "{:<16}{:>12.6g}{:>12.6g}{:>12.6g}{:>9.4f}{:>8.2f}%{:>8.1f}%{:>10.3f}{:>7}{:>10}\n", row.policy, row.makespan,
        row.lower_bound, row.mean, row.mean > 0 ? row.makespan / row.mean : 1, 100 * row.gap(),
        row.tokens > 0 ? 100.0 * static_cast<double>(row.moved_tokens) / static_cast<double>(row.tokens) : 0,
        row.plan_ms, row.empty_slots, row.cap_breaches);
  for (const Row& row : rows)
    if (!row.remedy.empty()) {
      out << row.remedy << "\n";
      break;
    }
  const auto none = std::ranges::find(rows, "none", &Row::policy);
  const Row& best = recommended(rows);
  if (none == rows.end() || best.policy == "none" || best.makespan <= 0) return;
  out << fmt::format("{}: {:.1f}% less time a step than none, {:.2f} times its throughput.\n", best.policy,
                     100 * (1 - best.makespan / none->makespan), none->makespan / best.makespan);
}

// ---- scaling -------------------------------------------------------------------------------------------------------

struct Point {
  int32_t replicas = 0;
  std::string policy;
  double step_seconds = 0, efficiency = 0, tokens_per_second = 0, exposed = 0;
};

// Few ranks need many steps before a mean says something.
int simulated_steps(const Scenario& scenario) {
  constexpr int64_t kSlots = 512, kMost = 64;
  const int64_t slots = int64_t{scenario.replicas} * scenario.micro_batches;
  return static_cast<int>(std::clamp<int64_t>(kSlots / slots, 1, kMost));
}

std::vector<Point> simulate(const BalanceOptions& options, const Source& source, const PolicyMaker& make_policy) {
  std::vector<Point> points;
  const Profile& profile = options.profile;
  for (const int32_t replicas : options.scaling) {
    BalanceOptions sized = options;
    sized.scenario.replicas = replicas;
    Steps steps;
    for (int i = 0; i < simulated_steps(sized.scenario); ++i) {
      sized.seed = options.seed + static_cast<uint64_t>(i);
      steps.push_back(std::move(draw_steps(sized, drawn_from(source, sized)).front()));
    }
    const auto count = static_cast<double>(steps.size());
    for (const Row& row : compare(steps, sized, make_policy)) {
      Point point;
      point.replicas = replicas;
      point.policy = row.policy;
      const double mean = row.mean / count;
      const double fixed = profile.fixed_seconds * options.scenario.micro_batches + profile.other_seconds;
      // Planning runs one step ahead: only what is longer than a step would be waited for.
      const double late = std::max(0.0, row.plan_ms * 1e-3 / count - mean);
      point.exposed = exposed_seconds(profile, replicas, mean) + late;
      point.step_seconds = row.noisy / count + fixed + point.exposed;
      point.efficiency = (mean + fixed) / point.step_seconds;
      point.tokens_per_second = static_cast<double>(row.tokens) / count / replicas / point.step_seconds;
      points.push_back(point);
    }
  }
  return points;
}

std::string model_text(const Profile& p) {
  return fmt::format(
      "step = slowest rank, its time with {:.1f}% noise, + fixed {:.3g} s a micro-batch + other {:.3g} s a step + "
      "exposed communication;\n"
      "communication = 2 (R-1)/R * {:.3g} bytes / {:.3g} bytes/s + {:.3g} s * ceil(log2 R), hidden behind {:.0f}% of "
      "the mean rank's compute",
      100 * p.noise, p.fixed_seconds, p.other_seconds, p.gradient_bytes, p.bus_bandwidth, p.latency_seconds,
      100 * p.overlap);
}

void report_scaling(const std::vector<Point>& points, const BalanceOptions& options, const Source& source,
                    std::ostream& out) {
  const std::optional<MeasuredStep>& measured = options.profile.measured;
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Point& point : points) {
      if (json.empty() || json.back()["ranks"] != point.replicas) json.push_back({{"ranks", point.replicas}});
      json.back()["policies"][point.policy] = {{"step_seconds", point.step_seconds},
                                               {"tokens_per_second_per_rank", point.tokens_per_second},
                                               {"efficiency", point.efficiency},
                                               {"exposed_seconds", point.exposed}};
    }
    nlohmann::ordered_json result = {
        {"model", model_text(options.profile)}, {"costs", source.costs}, {"note", source.note}, {"scaling", json}};
    if (measured)
      result["measured"] = {
          {"ranks", measured->ranks}, {"micro_batches", measured->micro_batches}, {"step_seconds", measured->seconds}};
    out << result.dump(1) << "\n";
  } else {
    if (!source.note.empty()) out << source.note << "\n";
    out << model_text(options.profile) << ";\ncosts: " << source.costs << "\n";
    if (measured)
      out << fmt::format("the profile's own run: {} ranks x {} micro-batches took {:.4g} s a step\n", measured->ranks,
                         measured->micro_batches, measured->seconds);
    out << fmt::format("{:>7} {:<16}{:>12}{:>12}{:>14}{:>12}\n", "ranks", "policy", "step s", "exposed s",
                       "tokens/s/rank", "efficiency");
    for (const Point& point : points)
      out << fmt::format("{:>7} {:<16}{:>12.4f}{:>12.4f}{:>14.1f}{:>11.1f}%\n", point.replicas, point.policy,
                         point.step_seconds, point.exposed, point.tokens_per_second, 100 * point.efficiency);
  }
  if (options.plot.empty()) return;
  std::vector<Line> lines;
  for (const std::string& policy : options.policies) {
    lines.push_back({policy, {}});
    for (const Point& point : points)
      if (point.policy == policy) lines.back().efficiency.push_back(point.efficiency);
  }
  write_file(options.plot, lines_svg({options.scaling.begin(), options.scaling.end()}, lines));
}

}  // namespace

PolicyMaker policies_of(PluginSet& plugins, const lf_host* host) {
  return [&plugins, host, started = std::set<std::string>()](const std::string& id,
                                                             const std::string& options_json) mutable {
    Plugin& plugin = plugins.load(PluginKind::kBalancer, id);
    if (host != nullptr && started.insert(id).second) plugin.start(host);
    const auto* api = plugin.interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
    if (api == nullptr)
      fail(Exit::kConfig, "{}: expected the interface {}, which it does not offer", plugin.path().string(),
           LF_BALANCER_INTERFACE);
    return Policy(id, api, host, options_json);
  };
}

namespace {

std::string described_costs(const BalanceOptions& options) {
  if (is_fitted(options))
    return fmt::format("{} as a run of {} ranks fitted them in {} steps: {} of its typical step", options.cost_name,
                       options.profile.fitted->ranks, options.profile.fitted->steps,
                       options.profile.fitted->description);
  if (options.cost.quadratic + options.cost.linear > 0) return options.cost_name;
  return fmt::format("operations of {} at {:.3g} a second", options.cost_name, options.profile.flops_per_second);
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
  if (given("flops")) options.profile.fitted.reset();
  calibrate(job, options.profile);
  return {std::move(job.samples), described_costs(options), std::move(job.note)};
}

Source source_of(BalanceOptions& options, const JobReader& read_job) {
  if (!options.job.empty()) return source_of_job(options, read_job);
  Source source{{}, described_costs(options), ""};
  if (!options.synthetic.empty()) return source;
  SampleFile file = read_samples(options.samples, options.image_max_pixels);
  source = {std::move(file.samples), std::move(source.costs), std::move(file.note)};
  prepare(source.file, options, source.note);
  return source;
}

}  // namespace

int run_balance(std::span<const std::string> arguments, const PolicyMaker& make_policy, const JobReader& read_job,
                std::ostream& out) {
  BalanceOptions options = read_balance_options(arguments);
  if (options.help) {
    out << balance_help();
    return static_cast<int>(Exit::kDone);
  }
  Source source = source_of(options, read_job);
  if (!options.scaling.empty()) {
    report_scaling(simulate(options, source, make_policy), options, source, out);
    return static_cast<int>(Exit::kDone);
  }
  Steps steps;
  if (source.file.empty()) {
    steps = draw_steps(options, drawn_from(source, options));
  } else {
    shuffle(source.file, options.seed);
    steps = cut_into_steps(source.file, options);
  }
  const std::vector<Row> rows = compare(steps, options, make_policy);
  if (options.json) {
    nlohmann::ordered_json json = {
        {"ranks", options.scenario.replicas},
        {"micro_batches", options.scenario.micro_batches},
        {"steps", steps.size()},
        {"samples", std::accumulate(steps.begin(), steps.end(), size_t{0},
                                    [](size_t n, const auto& step) { return n + step.size(); })},
        {"costs", source.costs},
        {"note", source.note}};
    for (const Row& row : rows) json["policies"][row.policy] = to_json(row);
    out << json.dump(1) << "\n";
  } else {
    if (!source.note.empty()) out << source.note << "\n";
    out << fmt::format("costs: {}\n{} step{} on {} ranks x {} micro-batches, seconds\n", source.costs, steps.size(),
                       steps.size() == 1 ? "" : "s", options.scenario.replicas, options.scenario.micro_batches);
    write_table(rows, out);
  }
  if (!options.plot.empty()) {
    const Row& after = recommended(rows);
    write_file(options.plot,
               bars_svg(rows.front().replica_seconds, after.replica_seconds, rows.front().policy, after.policy));
  }
  return static_cast<int>(Exit::kDone);
}

}  // namespace lf
