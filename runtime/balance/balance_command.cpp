#include "balance/balance_command.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "balance/balance_options.h"
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
  for (size_t count = 16 * slots;; count *= 2) {  // until a step's packs are full
    std::vector<WorkSample> samples = draw(count, options.seed);
    const size_t used = samples_per_step(samples, options.cost, options.scenario);
    if (used == samples.size()) continue;
    samples.resize(used);
    return {samples};
  }
}

auto drawn_from(const std::string& distribution) {
  return [distribution](size_t count, uint64_t seed) { return synthetic_samples(distribution, count, seed); };
}

// With replacement: a file as a distribution, where more ranks need more samples than it has.
auto drawn_from(const std::vector<WorkSample>& file) {
  return [&file](size_t count, uint64_t seed) {
    Random random(seed);
    std::vector<WorkSample> samples;
    samples.reserve(count);
    for (size_t i = 0; i < count; ++i) samples.push_back(file[random.below(file.size())]);
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
      for (size_t p = 0; p < input.parts.size(); ++p) {
        const std::vector<double> slots = slot_seconds(input, p, outcome.assignments);
        for (size_t slot = 0; slot < slots.size(); ++slot)
          row.replica_seconds[slot / options.scenario.micro_batches] += slots[slot];
      }
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

std::vector<Point> simulate(const BalanceOptions& options, const PolicyMaker& make_policy) {
  std::vector<Point> points;
  std::vector<WorkSample> file;
  if (options.synthetic.empty()) file = read_samples(options.samples).samples;
  for (const int32_t replicas : options.scaling) {
    BalanceOptions sized = options;
    sized.scenario.replicas = replicas;
    const Steps steps = options.synthetic.empty() ? draw_steps(sized, drawn_from(file))
                                                  : draw_steps(sized, drawn_from(options.synthetic));
    for (const Row& row : compare(steps, sized, make_policy)) {
      Point point;
      point.replicas = replicas;
      point.policy = row.policy;
      const double fixed = options.profile.fixed_seconds * options.scenario.micro_batches;
      const double exposed = exposed_seconds(options.profile, replicas, row.mean);
      // Planning runs one step ahead: only what is longer than a step would be waited for.
      const double late = std::max(0.0, row.plan_ms * 1e-3 - row.mean);
      point.exposed = exposed + late;
      const double slowdown = slowdown_by_noise(row.replica_seconds, options.profile.noise, options.seed);
      point.step_seconds = row.makespan * slowdown + fixed + point.exposed;
      point.efficiency = (row.mean + fixed) / point.step_seconds;
      point.tokens_per_second = static_cast<double>(row.tokens) / replicas / point.step_seconds;
      points.push_back(point);
    }
  }
  return points;
}

void report_scaling(const std::vector<Point>& points, const BalanceOptions& options, std::ostream& out) {
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Point& point : points) {
      if (json.empty() || json.back()["ranks"] != point.replicas) json.push_back({{"ranks", point.replicas}});
      json.back()["policies"][point.policy] = {{"step_seconds", point.step_seconds},
                                               {"tokens_per_second_per_rank", point.tokens_per_second},
                                               {"efficiency", point.efficiency},
                                               {"exposed_seconds", point.exposed}};
    }
    out << nlohmann::ordered_json{{"scaling", json}}.dump(1) << "\n";
  } else {
    const Profile& p = options.profile;
    out << fmt::format(
        "step = slowest rank, its time with {:.1f}% noise, + fixed {:.3g} s a micro-batch + exposed communication;\n"
        "communication = 2 (R-1)/R * {:.3g} bytes / {:.3g} bytes/s + {:.3g} s * ceil(log2 R), hidden behind {:.0f}% of "
        "the "
        "mean rank's compute\n",
        100 * p.noise, p.fixed_seconds, p.gradient_bytes, p.bus_bandwidth, p.latency_seconds, 100 * p.overlap);
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

int run_balance(std::span<const std::string> arguments, const PolicyMaker& make_policy, std::ostream& out) {
  const BalanceOptions options = read_balance_options(arguments);
  if (options.help) {
    out << balance_help();
    return static_cast<int>(Exit::kDone);
  }
  if (!options.scaling.empty()) {
    report_scaling(simulate(options, make_policy), options, out);
    return static_cast<int>(Exit::kDone);
  }
  Steps steps;
  std::string note;
  if (options.synthetic.empty()) {
    SampleFile file = read_samples(options.samples);
    shuffle(file.samples, options.seed);
    note = file.note;
    steps = cut_into_steps(file.samples, options);
  } else {
    steps = draw_steps(options, drawn_from(options.synthetic));
  }
  const std::vector<Row> rows = compare(steps, options, make_policy);
  if (options.json) {
    nlohmann::ordered_json json = {
        {"ranks", options.scenario.replicas},
        {"micro_batches", options.scenario.micro_batches},
        {"steps", steps.size()},
        {"samples", std::accumulate(steps.begin(), steps.end(), size_t{0},
                                    [](size_t n, const auto& step) { return n + step.size(); })},
        {"note", note}};
    for (const Row& row : rows) json["policies"][row.policy] = to_json(row);
    out << json.dump(1) << "\n";
  } else {
    if (!note.empty()) out << note << "\n";
    out << fmt::format("{} step{} on {} ranks x {} micro-batches, cost {}, seconds\n", steps.size(),
                       steps.size() == 1 ? "" : "s", options.scenario.replicas, options.scenario.micro_batches,
                       options.cost_name);
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
