// Policy "published_lpt": the rules of the published planner, written anew for comparison, with the true costs given.
//
// One micro-batch at a time, the loads of earlier ones carried along. A micro-batch stays as it arrived where
// max / mean - 1 < trigger, or where one sample costs more than the mean rank. Otherwise samples go longest first to
// the least loaded rank whose tokens stay within cap times the mean; then at most `swaps` times the most and the least
// loaded rank exchange the two samples that level them best. Nothing keeps a rank from going empty.
#include "lf/plugin_sdk/plugin.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "planning/options.h"
#include "planning/order.h"
#include "planning/places.h"
#include "planning/problem.h"
#include "planning/table.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"published_lpt","version":"0.1.0","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

using lf::planning::Problem;

class PublishedLpt {
 public:
  explicit PublishedLpt(std::string_view options) {
    lf::planning::read_settings(options, {{.name = "trigger", .number = &trigger_, .least = 0, .most = 100},
                                          {.name = "cap", .number = &cap_, .least = 1, .most = 100},
                                          {.name = "swaps", .number = &swaps_, .least = 0, .most = 1000}});
  }

  void plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report&) const {
    const Problem problem = lf::planning::make_problem(input);
    const int64_t* tokens = input.parts[input.n_parts - 1].rows;
    std::vector<int32_t> slot = problem.arrival;
    std::vector<int64_t> history(problem.replicas, 0);
    for (int32_t k = 0; k < problem.micro_batches; ++k) {
      std::vector<uint32_t> samples;
      for (uint32_t i = 0; i < problem.n_samples; ++i)
        if (problem.arrival[i] % problem.micro_batches == k) samples.push_back(i);
      Round round(problem, tokens, k, samples, history);
      if (round.worth_it(trigger_)) {
        round.deal(cap_);
        round.swap(static_cast<int>(swaps_), cap_);
      }
      round.commit(slot, history);
    }
    lf::planning::place_samples(input, slot, out);
    lf_assignment* atoms = out;  // it knows no atoms: untied ones go with their sample
    for (uint32_t p = 0; p + 1 < input.n_parts; atoms += input.parts[p].n_atoms, ++p)
      for (uint64_t i = 0; i < input.parts[p].n_atoms; ++i) {
        const int32_t place = slot[input.parts[p].sample[i]];
        atoms[i] = {place / problem.micro_batches, place % problem.micro_batches, 0, 0};
      }
    lf::planning::number_atoms(input, out);
  }

 private:
  // One micro-batch.
  class Round {
   public:
    Round(const Problem& problem, const int64_t* tokens, int32_t k, const std::vector<uint32_t>& samples,
          const std::vector<int64_t>& history)
        : problem_(problem), tokens_(tokens), k_(k), samples_(samples), history_(history) {
      for (const uint32_t i : samples_) {
        rank_.push_back(problem_.arrival[i] / problem_.micro_batches);
        total_cost_ += problem_.cost[i];
        total_tokens_ += tokens_[i];
      }
      sum_up();
    }

    bool worth_it(double trigger) const {
      const double mean = static_cast<double>(total_cost_) / problem_.replicas;
      if (std::ranges::any_of(samples_, [&](uint32_t i) { return static_cast<double>(problem_.cost[i]) > mean; }))
        return false;
      return mean > 0 && static_cast<double>(*std::ranges::max_element(cost_)) / mean - 1 >= trigger;
    }

    void deal(double cap) {
      const auto most = static_cast<int64_t>(cap * static_cast<double>(total_tokens_) / problem_.replicas);
      std::fill(cost_.begin(), cost_.end(), 0);
      std::fill(used_.begin(), used_.end(), 0);
      std::vector<int64_t> keys;
      for (const uint32_t i : samples_) keys.push_back(problem_.cost[i]);
      std::set<std::pair<int64_t, int32_t>> by_load;  // so that tables of a thousand ranks take minutes, not hours
      for (int32_t r = 0; r < problem_.replicas; ++r) by_load.emplace(load(r), r);
      for (const uint32_t j : lf::planning::heaviest_first(keys)) {
        const uint32_t i = samples_[j];
        auto best =
            std::ranges::find_if(by_load, [&](const auto& at) { return used_[at.second] + tokens_[i] <= most; });
        if (best == by_load.end()) {
          const auto emptiest = static_cast<int32_t>(std::ranges::min_element(used_) - used_.begin());
          best = by_load.find({load(emptiest), emptiest});
        }
        const int32_t rank = best->second;
        by_load.erase(best);
        rank_[j] = rank;
        cost_[rank] += problem_.cost[i];
        used_[rank] += tokens_[i];
        by_load.emplace(load(rank), rank);
      }
    }

    void swap(int rounds, double cap) {
      const auto most = static_cast<int64_t>(cap * static_cast<double>(total_tokens_) / problem_.replicas);
      for (; rounds > 0; --rounds) {
        int32_t heavy = 0, light = 0;
        for (int32_t r = 1; r < problem_.replicas; ++r) {
          if (load(r) > load(heavy)) heavy = r;
          if (load(r) < load(light)) light = r;
        }
        int64_t best = load(heavy) - load(light);
        size_t give = samples_.size(), take = samples_.size();
        for (size_t a = 0; a < samples_.size(); ++a)
          for (size_t b = 0; rank_[a] == heavy && b < samples_.size(); ++b) {
            if (rank_[b] != light) continue;
            const int64_t shift = problem_.cost[samples_[a]] - problem_.cost[samples_[b]];
            const int64_t grow = tokens_[samples_[a]] - tokens_[samples_[b]];
            const int64_t apart = std::abs(load(heavy) - load(light) - 2 * shift);
            if (shift > 0 && apart < best && used_[light] + grow <= most) best = apart, give = a, take = b;
          }
        if (give == samples_.size()) return;
        std::swap(rank_[give], rank_[take]);
        sum_up();
      }
    }

    void commit(std::vector<int32_t>& slot, std::vector<int64_t>& history) const {
      for (size_t j = 0; j < samples_.size(); ++j) slot[samples_[j]] = rank_[j] * problem_.micro_batches + k_;
      for (int32_t r = 0; r < problem_.replicas; ++r) history[r] += cost_[r];
    }

   private:
    int64_t load(int32_t rank) const { return history_[rank] + cost_[rank]; }
    void sum_up() {
      cost_.assign(problem_.replicas, 0);
      used_.assign(problem_.replicas, 0);
      for (size_t j = 0; j < samples_.size(); ++j) {
        cost_[rank_[j]] += problem_.cost[samples_[j]];
        used_[rank_[j]] += tokens_[samples_[j]];
      }
    }

    const Problem& problem_;
    const int64_t* tokens_;
    int32_t k_;
    std::vector<uint32_t> samples_;
    std::vector<int64_t> history_;      // by rank
    std::vector<int32_t> rank_;         // by position in samples_
    std::vector<int64_t> cost_, used_;  // by rank
    int64_t total_cost_ = 0, total_tokens_ = 0;
  };

  double trigger_ = 0.2, cap_ = 1.2, swaps_ = 20;
};

const lf_balancer_api kTable = lf::planning::table<PublishedLpt>();
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "published_lpt", "0.1.0");

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
