// Plans from learned and from stated costs, on several ranks that are threads, with the default policy's plugin.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "load_job.h"

namespace lf {
namespace {

using testing::HasSubstr;

// Micro-batches of one sample where `packing` is off: arrival is then very uneven.
std::vector<std::string> uneven_texts(int count) {
  std::mt19937 dice(5);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(fmt::format("rows={} weight={} images={}", 1 + dice() % 90, 1 + dice() % 20, dice() % 3));
  return texts;
}

struct BalancedJob : LoadJob {
  BalancedJob() : LoadJob(uneven_texts(400)) {
    policy = &minimax();
    config.data.packing = false;
    config.balance.costs = "learned";
    last_step = 24;
  }
};

int64_t rows_of(const StepRecord& step) { return std::accumulate(step.rows.begin(), step.rows.end(), int64_t{0}); }

// Rows of the slowest rank over the mean, over some steps.
double imbalance(const std::vector<std::vector<StepRecord>>& ranks, size_t first, size_t last) {
  double most = 0, mean = 0;
  for (size_t s = first; s < last; ++s) {
    int64_t slowest = 0;
    for (const auto& rank : ranks) {
      slowest = std::max(slowest, rank[s].step >= 0 ? rows_of(rank[s]) : 0);
      mean += static_cast<double>(rows_of(rank[s])) / static_cast<double>(ranks.size());
    }
    most += static_cast<double>(slowest);
  }
  return most / mean - 1;
}

// A machine whose times are a known function of what a rank does, with some noise that every run repeats.
double machine_seconds(const StepRecord& step, int rank) {
  const double noise = 0.01 * std::sin(static_cast<double>(step.step * 31 + rank * 17));
  return (1e-3 * static_cast<double>(rows_of(step)) + 0.002) * (1 + noise);
}

std::vector<uint64_t> samples_of(const std::vector<std::vector<StepRecord>>& ranks, size_t step) {
  std::vector<uint64_t> all;
  for (const auto& rank : ranks)
    for (const auto& batch : rank[step].samples) all.insert(all.end(), batch.begin(), batch.end());
  std::ranges::sort(all);
  return all;
}

TEST(BalancedLoader, the_same_samples_are_trained_in_a_step_but_more_evenly) {
  BalancedJob job;
  job.config.balance.costs = "stated";
  const auto balanced = job.run(4, 4);
  ASSERT_EQ(job.errors[0], "");
  job.policy = nullptr;
  const auto arrival = job.run(4, 4);
  for (size_t s = 0; s < arrival[0].size(); ++s) {
    EXPECT_EQ(samples_of(balanced, s), samples_of(arrival, s));
    EXPECT_EQ(balanced[0][s].global_loss_weight, arrival[0][s].global_loss_weight);
  }
  EXPECT_GT(imbalance(arrival, 0, 24), 0.2);
  EXPECT_LT(imbalance(balanced, 0, 24), 0.1);
}

TEST(BalancedLoader, no_micro_batch_keeps_more_memory_than_the_heaviest_that_arrived) {
  LoadJob job([] {
    std::mt19937 dice(6);
    std::vector<std::string> texts;
    for (int i = 0; i < 300; ++i)
      texts.push_back(fmt::format("rows={} weight=1 images={}", 1 + dice() % 40, i % 6 == 0 ? 1 + dice() % 3 : 0));
    return texts;
  }());
  job.last_step = 12;
  job.config.balance.costs = "stated";
  const auto heaviest = [](const std::vector<std::vector<StepRecord>>& ranks, size_t s) {
    int64_t most = 0;
    for (const auto& rank : ranks)
      for (size_t k = 0; k < rank[s].rows.size(); ++k)
        most = std::max(most, 100 * rank[s].rows[k] + 1000 * 10 * int64_t{rank[s].images[k]});
    return most;
  };
  const auto arrival = job.run(4, 4);
  job.policy = &minimax();
  const auto balanced = job.run(4, 4);
  ASSERT_EQ(job.errors[0], "");
  bool planned = false;
  for (size_t s = 0; s < 12; ++s) {
    EXPECT_LE(heaviest(balanced, s), heaviest(arrival, s)) << "step " << s;
    planned |= balanced[0][s].planned;
  }
  EXPECT_TRUE(planned);
}

TEST(BalancedLoader, costs_are_learned_while_training_and_then_used) {
  BalancedJob job;
  job.seconds_of = machine_seconds;
  const auto ranks = job.run(4, 4);
  ASSERT_EQ(job.errors[0], "");
  EXPECT_FALSE(ranks[0][0].planned);  // nothing is known yet
  EXPECT_FALSE(ranks[0][3].planned);  // the first times come in with the step after those that were loaded ahead
  EXPECT_TRUE(ranks[0][10].planned);
  EXPECT_LT(imbalance(ranks, 10, 24), 0.1);
}

// Or the same job would train by other bits each time.
TEST(BalancedLoader, times_change_no_plan_from_stated_costs) {
  std::vector<std::vector<std::vector<StepRecord>>> runs;
  for (const double slower : {1.0, 3.0}) {
    BalancedJob job;
    job.config.balance.costs = "stated";
    job.last_step = 16;
    job.seconds_of = [slower](const StepRecord& step, int rank) {
      return machine_seconds(step, rank) * (rank == 2 ? slower : 1);
    };
    runs.push_back(job.run(4, 4));
    ASSERT_EQ(job.errors[0], "");
  }
  bool planned = false;
  for (size_t s = 0; s < 16; ++s) {
    EXPECT_EQ(runs[0][0][s].plan_hash, runs[1][0][s].plan_hash) << "step " << s;
    planned |= runs[0][0][s].planned;
  }
  EXPECT_TRUE(planned);
}

TEST(BalancedLoader, a_rank_three_times_slower_gets_a_third_of_the_work) {
  BalancedJob job;
  job.last_step = 60;
  job.seconds_of = [](const StepRecord& step, int rank) { return machine_seconds(step, rank) * (rank == 2 ? 3 : 1); };
  const auto ranks = job.run(4, 6);
  ASSERT_EQ(job.errors[0], "");
  int64_t slow = 0, others = 0;
  for (size_t s = 40; s < 60; ++s)
    for (int r = 0; r < 4; ++r) (r == 2 ? slow : others) += rows_of(ranks[r][s]);
  EXPECT_NEAR(3.0 * static_cast<double>(slow) / static_cast<double>(others), 1.0 / 3, 0.08);
}

TEST(BalancedLoader, times_that_are_no_times_disturb_nothing) {
  BalancedJob clean, dirty;
  clean.seconds_of = machine_seconds;
  dirty.seconds_of = [](const StepRecord& step, int rank) {
    return step.step % 5 == 1 && rank == 1 ? std::nan("") : machine_seconds(step, rank);
  };
  const auto good = clean.run(4, 4), bad = dirty.run(4, 4);
  ASSERT_EQ(dirty.errors[0], "");
  EXPECT_LT(imbalance(bad, 10, 24), imbalance(good, 10, 24) + 0.05);
}

TEST(BalancedLoader, a_resumed_run_makes_the_plans_of_the_straight_one) {
  BalancedJob straight;
  straight.seconds_of = machine_seconds;
  const auto whole = straight.run(4, 4);
  for (const int64_t stop : {1, 2, 5, 11}) {
    BalancedJob parts;
    parts.seconds_of = machine_seconds;
    parts.last_step = stop;
    const auto first = parts.run(4, 4);
    ASSERT_EQ(parts.errors[0], "");
    parts.first_step = stop;
    parts.last_step = 24;
    parts.position = first[0].back().after;
    const auto second = parts.run(4, 4);
    ASSERT_EQ(parts.errors[0], "");
    ASSERT_EQ(second[0].size(), static_cast<size_t>(24 - stop));
    for (size_t s = 0; s < second[0].size(); ++s)
      EXPECT_EQ(second[0][s].plan_hash, whole[0][s + stop].plan_hash) << "stopped at " << stop << ", step " << s + stop;
  }
}

TEST(BalancedLoader, another_number_of_ranks_goes_on_with_the_costs_that_were_learned) {
  BalancedJob job;
  job.seconds_of = machine_seconds;
  job.last_step = 12;
  const auto before = job.run(4, 4);
  job.first_step = 12;
  job.last_step = 20;
  job.position = before[0].back().after;
  const auto after = job.run(2, 8);
  ASSERT_EQ(job.errors[0], "");
  EXPECT_TRUE(after[0][0].planned);  // no warm-up again
  EXPECT_EQ(after[0].back().after.samples_seen, before[0].back().after.samples_seen * 20 / 12);
}

TEST(BalancedLoader, loaders_that_are_slow_in_turn_make_the_same_plans) {
  BalancedJob even, uneven;
  for (BalancedJob* job : {&even, &uneven}) job->seconds_of = machine_seconds;
  std::atomic<int> calls = 0;
  uneven.model.before_collate = [&calls] {
    if (calls++ % 7 == 0) std::this_thread::yield();
  };
  uneven.adjust = [](LoaderInputs& inputs, int rank) {
    static JobConfig configs[4];
    configs[rank] = *inputs.config;
    configs[rank].data.workers = 1 + rank;
    inputs.config = &configs[rank];
  };
  const auto one = even.run(4, 4), other = uneven.run(4, 4);
  ASSERT_EQ(uneven.errors[0], "");
  for (size_t s = 0; s < one[0].size(); ++s) EXPECT_EQ(one[0][s].plan_hash, other[3][s].plan_hash);
}

TEST(BalancedLoader, a_rank_whose_plan_differs_is_named_before_anyone_trains_on_it) {
  BalancedJob job;
  job.config.balance.costs = "stated";
  static const lf_balancer_api lazy = [] {
    lf_balancer_api table = sdk::with_header<lf_balancer_api>();
    table.create = [](const lf_host*, lf_str, lf_balancer* out, lf_err*) -> int32_t {
      *out = nullptr;
      return LF_OK;
    };
    table.destroy = [](lf_balancer, lf_err*) -> int32_t { return LF_OK; };
    table.plan = [](lf_balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report*,
                    lf_err*) -> int32_t {  // the arrival
      std::vector<int32_t> count;
      for (uint32_t p = 0; p < input->n_parts; ++p) {
        const lf_balance_part& part = input->parts[p];
        count.assign(part.replicas * part.micro_batches, 0);
        for (uint64_t i = 0; i < part.n_atoms; ++i) {
          const int32_t r = part.arrival_replica[i], k = part.arrival_micro_batch[i];
          *out++ = {r, k, count[r * part.micro_batches + k]++, 0};
        }
      }
      return LF_OK;
    };
    return table;
  }();
  static const Policy other("lazy", &lazy, nullptr, "");
  job.adjust = [](LoaderInputs& inputs, int rank) {
    if (rank == 2) inputs.policy = &other;
  };
  const auto ranks = job.run(4, 4);
  for (int r = 0; r < 4; ++r) {
    EXPECT_THAT(job.errors[r], HasSubstr("balance: step 1: rank 2 made another plan")) << r;
    EXPECT_TRUE(ranks[r].empty()) << r;
  }
}

TEST(BalancedLoader, a_rank_one_step_ahead_is_named_before_anyone_trains) {
  BalancedJob job;
  job.adjust = [](LoaderInputs& inputs, int rank) { inputs.first_step += rank == 1; };
  const auto ranks = job.run(4, 4);
  for (int r = 0; r < 4; ++r) {
    EXPECT_THAT(job.errors[r], HasSubstr("loader: rank 1 is at step 2 while rank 0 is at step 1")) << r;
    EXPECT_TRUE(ranks[r].empty()) << r;
  }
}

TEST(BalancedLoader, a_step_needs_one_gather_of_features_and_one_of_what_came_of_it) {
  BalancedJob job;
  job.last_step = 20;
  job.seconds_of = machine_seconds;
  job.run(4, 100);  // 400 samples a step: more than the first window has
  EXPECT_EQ(job.errors[0], "");
  EXPECT_LE(job.gathers, 2 * 20 + 8);
}

TEST(BalancedLoader, steps_without_images_on_any_rank_are_planned_like_others) {
  LoadJob job([] {
    std::vector<std::string> texts;
    for (int i = 0; i < 200; ++i)
      texts.push_back(fmt::format("rows={} weight=1 images={}", 1 + i * 7 % 90, i % 50 == 0 ? 1 : 0));
    return texts;
  }());
  job.policy = &minimax();
  job.config.data.packing = false;
  job.config.balance.costs = "learned";
  job.seconds_of = machine_seconds;
  job.last_step = 12;
  const auto ranks = job.run(4, 4);
  EXPECT_EQ(job.errors[0], "");
  EXPECT_EQ(ranks[3].size(), 12u);
}

// Or the checkpoint that follows would plan otherwise than the run that was stopped.
TEST(Balanced, what_was_learned_stays_when_a_stop_ends_loading) {
  BalancedJob job;
  job.last_step = 1000;
  const auto meeting = std::make_shared<Meeting>(2);
  std::atomic<bool> stop = false;
  std::vector<std::future<std::pair<std::string, std::string>>> states;
  for (int rank = 0; rank < 2; ++rank)
    states.push_back(std::async(std::launch::async, [&, rank] {
      ThreadExchange exchange(meeting, rank);
      LoaderInputs inputs = job.inputs(exchange);
      inputs.stop_requested = [&] { return stop.load(); };
      Loader loader(inputs);
      std::string before;
      for (StepWork work = loader.next(); !work.stopped; work = loader.next()) {
        loader.observe(work.step, {0.01, 0.02});
        before = loader.balance_state();
        if (work.step == 8) stop = true;
      }
      return std::pair(before, loader.balance_state());
    }));
  for (auto& rank : states) {
    const auto [before, after] = rank.get();
    EXPECT_FALSE(before.empty());
    EXPECT_EQ(after, before);
  }
}

}  // namespace
}  // namespace lf
