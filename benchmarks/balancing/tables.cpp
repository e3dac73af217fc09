// The tables of docs/benchmarks/balancing.md: every policy on every distribution, all cells.
//
//   balancing_tables --plugins DIR... [--seeds 10] [--ranks 8,32,128,512,1024] [--only TEXT] [--distribution NAME] >
//   tables.md
//
// --only: tables whose title has this text; --distribution: of the makespan tables, rows of this one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "balance/evaluate.h"
#include "balance/scenario.h"
#include "core/error.h"
#include "fit.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/plugins.h"
#include "regret.h"

namespace lf {
namespace {

struct Settings {
  std::vector<std::filesystem::path> plugins;
  int seeds = 10;
  std::vector<int32_t> ranks = {8, 32, 128, 512, 1024};
  std::string only, distribution;  // empty: all
};

struct Case {
  const char* distribution;
  int64_t pack;  // tokens of a micro-batch, about
  const char* cost;
};
constexpr Case kTexts[] = {{"D1", 16384, "8B"}, {"D1-skewed", 16384, "8B"}, {"D2", 4096, "8B"},
                           {"D3", 16384, "8B"}, {"D3-long", 32768, "8B"},   {"D5", 131072, "8B"}};
constexpr Case kImages[] = {{"D4", 16384, "6B+20B"},          {"D4-ai2d", 16384, "6B+20B"},
                            {"D4-chartqa", 16384, "6B+20B"},  {"D4-docvqa", 16384, "6B+20B"},
                            {"D4-synthdog", 16384, "6B+20B"}, {"D5-video", 32768, "0.6B+8B"},
                            {"D6", 8192, "0.6B+8B"},          {"joint", 16384, "6B+20B"}};

// Each distribution once: of the VQA sets their mix.
std::vector<Case> every_kind() {
  std::vector<Case> cases(std::begin(kTexts), std::end(kTexts));
  for (const Case& one : kImages)
    if (!std::string_view(one.distribution).starts_with("D4-")) cases.push_back(one);
  return cases;
}

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings), plugins_(settings.plugins, PluginHost{}, false) {}

  const Policy& policy(const std::string& id, const std::string& options = "") {
    auto found = policies_.find(id + options);
    if (found == policies_.end()) {
      const auto* api = plugins_.load(PluginKind::kBalancer, id).interface<lf_balancer_api>(LF_BALANCER_INTERFACE);
      found = policies_.emplace(id + options, Policy(id, api, nullptr, options)).first;
    }
    return found->second;
  }

  // Samples of a rank in a step so that micro-batches have about `pack` tokens.
  size_t per_rank(const Case& one, int32_t micro_batches) {
    const WorkCost cost = named_cost(one.cost);
    double tokens = 0;
    constexpr size_t kDrawn = 20000;
    for (const WorkSample& sample : synthetic_samples(one.distribution, kDrawn, 99))
      tokens += static_cast<double>(cost.tokens(sample));
    return std::max<size_t>(1,
                            static_cast<size_t>(static_cast<double>(one.pack * micro_batches * kDrawn) / tokens + 0.5));
  }

  BalanceInput counted(const Case& one, const Scenario& scenario, uint64_t seed) {
    return scenario_input(
        synthetic_samples(one.distribution, per_rank(one, scenario.micro_batches) * scenario.replicas, seed),
        named_cost(one.cost), scenario);
  }

  BalanceInput packed(const Case& one, Scenario scenario, uint64_t seed) {
    scenario.pack = one.pack;
    std::vector<WorkSample> samples = synthetic_samples(
        one.distribution, per_rank(one, scenario.micro_batches) * scenario.replicas * 5 / 4 + 64, seed);
    samples.resize(samples_per_step(samples, named_cost(one.cost), scenario));
    return scenario_input(samples, named_cost(one.cost), scenario);
  }

  bool wants(const Case& one) const {
    return settings_.distribution.empty() || settings_.distribution == one.distribution;
  }
  const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  PluginSet plugins_;
  std::map<std::string, Policy> policies_;
};

// One column over seeds.
struct Cell {
  double sum = 0, worst = 0, moved = 0;
  int64_t empty = 0, breaches = 0;
  int n = 0;
  void add(const Outcome& outcome, double against) {
    const double ratio = outcome.certificate.objective / against;
    sum += ratio;
    worst = std::max(worst, ratio);
    moved += static_cast<double>(outcome.moved_tokens) / static_cast<double>(outcome.tokens);
    empty += outcome.empty_slots;
    breaches += outcome.cap_breaches;
    ++n;
  }
  std::string mean() const { return fmt::format("{:.4f}", sum / n); }
  std::string most() const { return fmt::format("{:.4f}", worst); }
};

struct Column {
  const char* title;
  const char* policy;
  const char* options;
};
constexpr Column kColumns[] = {{"none", "none", ""},
                               {"longest_first", "longest_first", ""},
                               {"karmarkar_karp", "karmarkar_karp", ""},
                               {"minimax", "minimax", ""},
                               {"published", "published_lpt", ""},
                               {"published, trigger 0", "published_lpt", R"({"trigger":0})"}};

enum class Arrival { kCounted, kPacked };  // as many samples on every rank; packs filled in order

void row(Bench& bench, const Case& one, const Scenario& scenario, Arrival arrival) {
  std::vector<Cell> cells(std::size(kColumns));
  Cell mean;
  int64_t kept = 0;
  for (int seed = 1; seed <= bench.settings().seeds; ++seed) {
    const BalanceInput input =
        arrival == Arrival::kPacked ? bench.packed(one, scenario, seed) : bench.counted(one, scenario, seed);
    std::vector<Outcome> outcomes;
    double bound = 0;
    for (const Column& column : kColumns) {
      outcomes.push_back(evaluate(bench.policy(column.policy, column.options), input));
      bound = std::max(bound, outcomes.back().certificate.lower_bound);
    }
    for (size_t c = 0; c < outcomes.size(); ++c) cells[c].add(outcomes[c], bound);
    Outcome ideal = outcomes[0];
    ideal.certificate.objective = bound;
    mean.add(ideal, ideal.certificate.mean);
    kept += outcomes[3].empty_slots + outcomes[3].cap_breaches;
  }
  fmt::print("| {} | {} | {} | {} |", one.distribution, scenario.micro_batches, scenario.replicas, mean.mean());
  for (size_t c = 0; c < cells.size(); ++c) fmt::print(" {} |", cells[c].mean());
  fmt::print(" {} | {} | {} |\n", cells[3].most(), kept, cells[4].empty + cells[4].breaches);
  std::fflush(stdout);
}

void table_makespan(Bench& bench, double cap, int32_t objective, std::span<const Case> cases,
                    Arrival arrival = Arrival::kCounted) {
  fmt::print(
      "| distribution | micro-batches | ranks | bound / mean | none | longest_first | karmarkar_karp | minimax | "
      "published | "
      "published, trigger 0 | minimax, worst seed | minimax: broken | published: broken |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : cases) {
    if (!bench.wants(one)) continue;
    for (const int32_t micro_batches : {1, 2, 4, 8})
      for (const int32_t ranks : bench.settings().ranks)
        row(bench, one, {.replicas = ranks, .micro_batches = micro_batches, .cap = cap, .objective = objective},
            arrival);
  }
}

void table_lockstep(Bench& bench) {
  fmt::print(
      "| distribution | micro-batches | ranks | none | minimax, whole packs | minimax | minimax, worst seed | "
      "longest_first | "
      "karmarkar_karp | published, trigger 0 | minimax / bound |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : every_kind()) {
    if (!bench.wants(one)) continue;
    for (const int32_t micro_batches : {1, 2, 4, 8})
      for (const int32_t ranks : bench.settings().ranks) {
        std::vector<Cell> cells(6);
        Cell gap;
        for (int seed = 1; seed <= bench.settings().seeds; ++seed) {
          const BalanceInput input = bench.packed(
              one, {.replicas = ranks, .micro_batches = micro_batches, .cap = 1.05, .objective = LF_OBJECTIVE_LOCKSTEP},
              seed);
          const Policy* policies[] = {
              &bench.policy("none"),           &bench.policy("minimax", R"({"moves":"packs"})"),
              &bench.policy("minimax"),        &bench.policy("longest_first"),
              &bench.policy("karmarkar_karp"), &bench.policy("published_lpt", R"({"trigger":0})")};
          for (size_t c = 0; c < cells.size(); ++c) {
            const Outcome outcome = evaluate(*policies[c], input);
            cells[c].add(outcome, outcome.certificate.mean);
            if (c == 2) gap.add(outcome, outcome.certificate.lower_bound);
          }
        }
        fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", one.distribution, micro_batches, ranks,
                   cells[0].mean(), cells[1].mean(), cells[2].mean(), cells[2].most(), cells[3].mean(), cells[4].mean(),
                   cells[5].mean(), gap.mean());
        std::fflush(stdout);
      }
  }
}

void table_moves(Bench& bench) {
  fmt::print(
      "| distribution | micro-batches | ranks | none | minimax, few moves | tokens moved | tokens moved, most | "
      "longest_first | tokens moved | karmarkar_karp | tokens moved | published, trigger 0 | tokens moved |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : every_kind()) {
    if (!bench.wants(one)) continue;
    for (const int32_t micro_batches : {1, 2, 4, 8})
      for (const int32_t ranks : bench.settings().ranks) {
        const std::pair<const char*, const char*> policies[] = {{"minimax", R"({"moves":"few"})"},
                                                                {"none", ""},
                                                                {"longest_first", ""},
                                                                {"karmarkar_karp", ""},
                                                                {"published_lpt", R"({"trigger":0})"}};
        std::vector<Cell> cells(std::size(policies));
        double most = 0;
        for (int seed = 1; seed <= bench.settings().seeds; ++seed) {
          const BalanceInput input =
              bench.packed(one, {.replicas = ranks, .micro_batches = micro_batches, .cap = 1.2}, seed);
          double bound = 0;
          for (size_t c = 0; c < cells.size(); ++c) {
            const Outcome outcome = evaluate(bench.policy(policies[c].first, policies[c].second), input);
            if (c == 0) {
              bound = outcome.certificate.lower_bound;
              most = std::max(most, static_cast<double>(outcome.moved_tokens) / static_cast<double>(outcome.tokens));
            }
            cells[c].add(outcome, bound);
          }
        }
        const auto moved = [](const Cell& cell) { return 100 * cell.moved / cell.n; };
        fmt::print("| {} | {} | {} | {} | {} | {:.1f}% | {:.1f}% | {} | {:.1f}% | {} | {:.1f}% | {} | {:.1f}% |\n",
                   one.distribution, micro_batches, ranks, cells[1].mean(), cells[0].mean(), moved(cells[0]),
                   100 * most, cells[2].mean(), moved(cells[2]), cells[3].mean(), moved(cells[3]), cells[4].mean(),
                   moved(cells[4]));
        std::fflush(stdout);
      }
  }
}

void table_joint(Bench& bench) {
  fmt::print(
      "| case | objective | none | longest_first | karmarkar_karp | minimax | minimax, worst seed | published, trigger "
      "0 |\n"
      "|---|---|---|---|---|---|---|---|\n");
  struct Joint {
    const char* name;
    Case one;
    Scenario scenario;
  };
  const Joint cases[] = {
      {"6B vision + 20B language, 30% text, 128 x 4, 16K packs, cap 1.05",
       {"joint", 16384, "6B+20B"},
       {.replicas = 128, .micro_batches = 4, .cap = 1.05}},
      {"the same, 4K packs, cap 1.10", {"joint", 4096, "6B+20B"}, {.replicas = 128, .micro_batches = 4, .cap = 1.10}},
      {"0.6B + 8B, 10% video, 256 x 4, whole samples",
       {"video10", 32768, "0.6B+8B"},
       {.replicas = 256, .micro_batches = 4, .cap = 1.2}},
      {"the same, frames as atoms",
       {"video10", 32768, "0.6B+8B"},
       {.replicas = 256, .micro_batches = 4, .cap = 1.2, .frames_are_atoms = true}},
  };
  for (const Joint& joint : cases)
    for (const int32_t objective : {LF_OBJECTIVE_SUM, LF_OBJECTIVE_TWO_STAGE}) {
      Scenario scenario = joint.scenario;
      scenario.objective = objective;
      std::vector<Cell> cells(5);
      for (int seed = 1; seed <= bench.settings().seeds; ++seed) {
        const BalanceInput input = bench.counted(joint.one, scenario, seed);
        const Policy* policies[] = {&bench.policy("none"), &bench.policy("longest_first"),
                                    &bench.policy("karmarkar_karp"), &bench.policy("minimax"),
                                    &bench.policy("published_lpt", R"({"trigger":0})")};
        std::vector<Outcome> outcomes;
        double bound = 0;
        for (const Policy* policy : policies) {
          outcomes.push_back(evaluate(*policy, input));
          bound = std::max(bound, outcomes.back().certificate.lower_bound);
        }
        for (size_t c = 0; c < cells.size(); ++c) cells[c].add(outcomes[c], bound);
      }
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", joint.name,
                 objective == LF_OBJECTIVE_SUM ? "sum" : "two-stage", cells[0].mean(), cells[1].mean(), cells[2].mean(),
                 cells[3].mean(), cells[3].most(), cells[4].mean());
      std::fflush(stdout);
    }
}

void table_vision(Bench& bench) {  // the encoder by itself: what the published planner never balances
  fmt::print("| encoder alone, 10% video, 256 x 4 | slowest / mean | worst seed |\n|---|---|---|\n");
  const std::pair<const char*, const char*> rows[] = {
      {"none", "none"}, {"published, trigger 0", "published_lpt"}, {"minimax, frames as atoms", "minimax"}};
  for (const auto& [title, policy] : rows) {
    Cell cell;
    for (int seed = 1; seed <= bench.settings().seeds; ++seed) {
      const Scenario scenario{.replicas = 256,
                              .micro_batches = 4,
                              .cap = 1.2,
                              .objective = LF_OBJECTIVE_TWO_STAGE,
                              .frames_are_atoms = true};
      const BalanceInput input = bench.counted({"video10", 32768, "0.6B+8B"}, scenario, seed);
      Outcome outcome =
          evaluate(bench.policy(policy, policy == std::string("published_lpt") ? R"({"trigger":0})" : ""), input);
      const std::vector<double> slots = slot_seconds(input, 0, outcome.assignments);
      double most = 0, sum = 0;
      for (int32_t r = 0; r < scenario.replicas; ++r) {
        double load = 0;
        for (int32_t k = 0; k < scenario.micro_batches; ++k) load += slots[r * scenario.micro_batches + k];
        most = std::max(most, load);
        sum += load;
      }
      outcome.certificate.objective = most;
      cell.add(outcome, sum / scenario.replicas);
    }
    fmt::print("| {} | {} | {} |\n", title, cell.mean(), cell.most());
  }
}

void table_fit(Bench& bench) {
  fmt::print(
      "| distribution | true imbalance | predicted after 20 steps | worst seed off by | standard error of the "
      "best unbiased estimate | 20% slower: found after | worst seed | false alarms in 1,000 steps | resume exact |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : kTexts) {
    const Fit fit = measure_fit(one.distribution, one.pack, bench.settings().seeds);
    fmt::print("| {} | {:.4f} | {:.4f} | {:.1f}% | {:.1f}% | {:.1f} steps | {:.0f} | {:.2f} | {} |\n", one.distribution,
               fit.true_imbalance, fit.predicted_imbalance, 100 * fit.worst_error, 100 * fit.least_error,
               fit.drift_steps, fit.worst_drift_steps, fit.false_alarms, fit.resume_exact ? "yes" : "NO");
    std::fflush(stdout);
  }
}

void table_regret(Bench& bench) {
  fmt::print(
      "| distribution | exposed cost of a plan | oracle balances | ours balances | regret, ours | published trigger: "
      "balances | "
      "regret, published trigger |\n|---|---|---|---|---|---|---|\n");
  std::vector<Case> cases(std::begin(kTexts), std::end(kTexts));
  cases.push_back({"D4", 16384, "8B"});  // of pictures their tokens: the costs that are learned here are the decoder's
  cases.push_back({"D6", 8192, "8B"});
  for (const Case& one : cases)
    for (const double exposed : {0.0, 0.01, 0.05}) {
      const Regret regret =
          measure_regret(bench.policy("minimax"), one.distribution, one.pack, exposed, bench.settings().seeds);
      fmt::print("| {} | {:.0f}% of a step | {:.0f}% | {:.0f}% | {:.2f}% | {:.0f}% | {:.2f}% |\n", one.distribution,
                 100 * exposed, 100 * regret.oracle_share, 100 * regret.our_share, 100 * regret.ours,
                 100 * regret.ratio_share, 100 * regret.ratio);
      std::fflush(stdout);
    }
}

void run(const Settings& settings) {
  Bench bench(settings);
  const auto texts = std::span(kTexts);
  const std::pair<const char*, std::function<void()>> tables[] = {
      {"Q1: makespan over the bound, cap 1.05", [&] { table_makespan(bench, 1.05, LF_OBJECTIVE_MAKESPAN, texts); }},
      {"Q1, Q6: images, encoder and decoder on the same ranks, cap 1.05",
       [&] { table_makespan(bench, 1.05, LF_OBJECTIVE_SUM, kImages); }},
      {"Q1 with the published system's cap of 1.2",
       [&] {
         table_makespan(bench, 1.2, LF_OBJECTIVE_MAKESPAN, texts.first(2));
         table_makespan(bench, 1.2, LF_OBJECTIVE_MAKESPAN, texts.last(1));
       }},
      {"Q1 where samples arrive in packs, cap 1.05: the limit is a pack, or the longest sample",
       [&] { table_makespan(bench, 1.05, LF_OBJECTIVE_MAKESPAN, texts, Arrival::kPacked); }},
      {"Q2: lockstep over the mean, samples in packs", [&] { table_lockstep(bench); }},
      {"Q4: few moves, samples in packs, cap 1.2", [&] { table_moves(bench); }},
      {"Q6, Q7: encoder and decoder together",
       [&] {
         table_joint(bench);
         fmt::print("\n");
         table_vision(bench);
       }},
      {"Q9: regret of the trigger", [&] { table_regret(bench); }},
      {"Q8: costs learned from noisy times", [&] { table_fit(bench); }}};
  bool first = true;
  for (const auto& [title, print] : tables) {
    if (std::string(title).find(settings.only) == std::string::npos) continue;
    fmt::print("{}### {}\n\n", first ? "" : "\n", title);
    first = false;
    print();
  }
}

}  // namespace
}  // namespace lf

int main(int argc, char** argv) {
  lf::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) lf::fail(lf::Exit::kUsage, "{}: expected a value", flag);
      return std::string(argv[++i]);
    };
    try {
      if (flag == "--plugins")
        settings.plugins.emplace_back(value());
      else if (flag == "--only")
        settings.only = value();
      else if (flag == "--distribution")
        settings.distribution = value();
      else if (flag == "--seeds")
        settings.seeds = std::stoi(value());
      else if (flag == "--ranks") {
        settings.ranks.clear();
        std::string list = value() + ",";
        for (size_t at = 0; at < list.size();) {
          const size_t comma = list.find(',', at);
          settings.ranks.push_back(std::stoi(list.substr(at, comma - at)));
          at = comma + 1;
        }
      } else
        lf::fail(lf::Exit::kUsage, "{}: expected --plugins, --seeds, --ranks, --only or --distribution", flag);
    } catch (const lf::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return static_cast<int>(error.exit());
    }
  }
  try {
    lf::run(settings);
  } catch (const lf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit());
  }
  return 0;
}
