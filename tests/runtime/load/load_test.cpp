// Several ranks, as threads, load one data set: the same global batches whatever the layout.
#include "load/load.h"

#include <atomic>
#include <future>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/order.h"
#include "load/estimate.h"
#include "load_job.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

using Batches = std::vector<std::vector<std::vector<uint64_t>>>;

// Rows between 1 and 60 of at most 100: several samples a micro-batch, never evenly.
std::vector<std::string> mixed_texts(int count) {
  std::mt19937 dice(3);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i)
    texts.push_back(fmt::format("rows={} weight={} images={}", 1 + dice() % 60, dice() % 20, dice() % 3));
  return texts;
}

std::vector<std::string> texts_of_rows(int count, int rows) {
  return std::vector<std::string>(count, fmt::format("rows={} weight=1", rows));
}

int64_t rows_of(const std::string& text) { return std::stoll(text.substr(text.find("rows=") + 5)); }

// What the loader should give, the plain way: one after the other.
Batches reference(const std::vector<std::string>& texts, const JobConfig& config, size_t micro_batches, size_t steps) {
  const Order order(texts.size(), config.job.seed, config.data.shuffle);
  Batches out;
  uint64_t position = 0;
  for (size_t s = 0; s < steps; ++s) {
    std::vector<std::vector<uint64_t>> step;
    for (size_t b = 0; b < micro_batches; ++b) {
      std::vector<uint64_t> batch;
      for (int64_t rows = 0; rows + rows_of(texts[order.at(position)]) <= config.data.max_tokens; ++position) {
        rows += rows_of(texts[order.at(position)]);
        batch.push_back(order.at(position));
      }
      step.push_back(batch);
    }
    out.push_back(step);
  }
  return out;
}

TEST(Loader, packs_greedily_in_the_global_order) {
  const auto texts = mixed_texts(50);
  LoadJob job(texts);
  job.last_step = 20;
  const auto ranks = job.run(1, 4);
  EXPECT_EQ(job.errors[0], "");
  EXPECT_EQ(global_batches(ranks), reference(texts, job.config, 4, 20));  // four epochs long
}

TEST(Loader, the_number_of_ranks_changes_nothing) {
  const auto texts = mixed_texts(80);
  LoadJob job(texts);
  job.last_step = 12;
  const auto expected = reference(texts, job.config, 4, 12);
  std::vector<StepRecord> first;
  for (const auto& [ranks, micro_batches] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
    const auto out = job.run(ranks, micro_batches);
    EXPECT_EQ(global_batches(out), expected) << ranks << " ranks";
    for (const auto& rank : out) {
      ASSERT_EQ(rank.size(), 12u);
      if (first.empty()) first = rank;
      for (size_t s = 0; s < rank.size(); ++s) {
        EXPECT_EQ(rank[s].step, static_cast<int64_t>(s));
        EXPECT_EQ(rank[s].global_loss_weight, first[s].global_loss_weight);
        EXPECT_EQ(rank[s].global_rows, first[s].global_rows);
        EXPECT_EQ(rank[s].global_samples, first[s].global_samples);
        EXPECT_EQ(rank[s].after, first[s].after);
      }
    }
  }
}

TEST(Loader, sums_over_micro_batches_are_the_global_numbers) {
  LoadJob job(mixed_texts(60));
  job.last_step = 6;
  const auto ranks = job.run(2, 3);
  for (size_t s = 0; s < 6; ++s) {
    double weight = 0;
    int64_t rows = 0;
    for (const auto& rank : ranks)
      for (size_t b = 0; b < 3; ++b) {
        weight += rank[s].loss_weight[b];
        rows += rank[s].rows[b];
        EXPECT_LE(rank[s].rows[b], 100);
      }
    EXPECT_EQ(weight, ranks[0][s].global_loss_weight);
    EXPECT_EQ(rows, ranks[1][s].global_rows);
  }
}

TEST(Loader, workers_and_prefetch_change_nothing) {
  const auto texts = mixed_texts(40);
  LoadJob job(texts);
  job.last_step = 15;
  const auto expected = reference(texts, job.config, 2, 15);
  for (const int workers : {1, 4})
    for (const int prefetch : {1, 2, 5}) {
      job.config.data.workers = workers;
      job.config.data.prefetch_steps = prefetch;
      EXPECT_EQ(global_batches(job.run(2, 1)), expected) << workers << " workers, " << prefetch << " steps";
    }
}

TEST(Loader, without_packing_every_micro_batch_is_one_sample) {
  LoadJob job(mixed_texts(10));
  job.config.data.packing = false;
  job.config.data.shuffle = false;
  job.last_step = 4;
  const auto ranks = job.run(2, 2);
  EXPECT_EQ(global_batches(ranks),
            (Batches{{{0}, {1}, {2}, {3}}, {{4}, {5}, {6}, {7}}, {{8}, {9}, {0}, {1}}, {{2}, {3}, {4}, {5}}}));
}

TEST(Loader, an_epoch_sees_every_sample_once_and_goes_on_into_the_next) {
  LoadJob job(mixed_texts(30));
  job.config.data.packing = false;
  job.last_step = 30;  // of three samples: three epochs
  std::map<uint64_t, int> seen;
  std::vector<std::vector<uint64_t>> epochs;
  for (const auto& step : global_batches(job.run(3, 1)))
    for (const auto& batch : step) {
      ++seen[batch.at(0)];
      if (epochs.empty() || epochs.back().size() == 30) epochs.emplace_back();
      epochs.back().push_back(batch.at(0));
    }
  EXPECT_EQ(seen.size(), 30u);
  for (const auto& [ignored, count] : seen) EXPECT_EQ(count, 3);
  EXPECT_NE(epochs[0], epochs[1]);
}

// Rows are asked for twice, by features and by collate, and have to agree: both are told the same epoch.
TEST(Loader, a_sample_is_told_the_epoch_of_its_place_in_the_order_also_after_a_resume) {
  LoadJob job(std::vector<std::string>(6, "rows=10 a_row_each_epoch"));
  job.config.data.packing = false;
  job.last_step = 9;  // of two samples: three epochs
  for (const int64_t first : {0, 4})
    for (const int ranks : {1, 2}) {
      job.first_step = first;
      job.position = {.samples_seen = static_cast<uint64_t>(2 * first)};
      const auto out = job.run(ranks, 2 / ranks);
      EXPECT_EQ(job.errors, std::vector<std::string>(ranks));
      for (const auto& rank : out)
        for (const StepRecord& step : rank)
          for (const int64_t rows : step.rows) EXPECT_EQ(rows, 10 + step.step / 3) << ranks << " ranks from " << first;
    }
}

TEST(Loader, resuming_at_any_step_equals_the_straight_run_also_in_another_layout) {
  std::vector<std::string> texts = mixed_texts(70);
  for (int i = 0; i < 70; i += 9) texts[i] += i % 2 == 0 ? " bad_when_decoded" : " bad_features";
  texts[33] = "rows=300";
  LoadJob job(texts);
  job.last_step = 14;
  const auto straight = job.run(2, 2);
  ASSERT_EQ(job.errors[0], "");
  const auto batches = global_batches(straight);
  for (size_t stop = 1; stop < 14; ++stop) {
    job.first_step = static_cast<int64_t>(stop);
    job.position = straight[0][stop - 1].after;
    for (const auto& [ranks, micro_batches] : {std::pair{2, 2}, {4, 1}}) {
      const auto resumed = job.run(ranks, micro_batches);
      EXPECT_EQ(global_batches(resumed), Batches(batches.begin() + static_cast<std::ptrdiff_t>(stop), batches.end()));
      for (size_t s = stop; s < 14; ++s) {
        EXPECT_EQ(resumed[0][s - stop].step, static_cast<int64_t>(s));
        EXPECT_EQ(resumed[0][s - stop].after, straight[0][s].after) << "step " << s << " from " << stop;
      }
    }
  }
}

TEST(Loader, a_run_of_so_many_samples_uses_each_once_and_says_which_step_is_last) {
  LoadJob job(mixed_texts(45));
  for (const auto& [ranks, micro_batches] : {std::pair{1, 4}, {2, 2}, {4, 1}, {1, 7}}) {
    job.max_samples = 45;
    const auto out = job.run(ranks, micro_batches);
    EXPECT_EQ(job.errors[0], "");
    std::map<uint64_t, int> seen;
    for (const auto& step : global_batches(out))
      for (const auto& batch : step)
        for (const uint64_t id : batch) ++seen[id];
    EXPECT_EQ(seen.size(), 45u);
    for (const auto& [ignored, count] : seen) EXPECT_EQ(count, 1);
    for (const auto& rank : out)
      for (const StepRecord& step : rank) EXPECT_EQ(step.last, &step == &rank.back());
    EXPECT_EQ(out[0].back().after.samples_seen, 45u);
  }
}

TEST(Loader, the_last_smaller_step_leaves_no_micro_batch_empty_that_need_not_be) {
  LoadJob job(std::vector<std::string>(9, "rows=10"));
  job.config.data.shuffle = false;
  job.max_samples = 9;
  const auto enough = job.run(2, 2);  // nine samples of 10 rows would fit into one micro-batch
  EXPECT_EQ(global_batches(enough), (Batches{{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8}}}));
  job.max_samples = 3;
  const auto few = job.run(2, 2);
  EXPECT_EQ(global_batches(few), (Batches{{{0}, {1}, {2}, {}}}));
  EXPECT_EQ(few[1][0].rows[1], 0);
  EXPECT_TRUE(few[1][0].last);
}

TEST(Loader, asking_past_the_last_step_is_an_error) {
  LoadJob job(mixed_texts(20));
  LocalExchange alone;
  job.last_step = 2;
  Loader loader(job.inputs(alone));
  EXPECT_FALSE(loader.next().last);
  EXPECT_TRUE(loader.next().last);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, too_long_samples_are_skipped_and_counted) {
  LoadJob job({"rows=50", "rows=101", "rows=100", "rows=5000", "rows=50"});
  job.config.data.shuffle = false;
  job.max_samples = 5;
  const auto out = job.run(1, 1);
  EXPECT_EQ(global_batches(out), (Batches{{{0}}, {{2}}, {{4}}}));
  EXPECT_EQ(out[0].back().after,
            (DataPosition{.samples_seen = 5, .bad_samples = 0, .long_samples = 2, .cut_samples = 0}));
}

TEST(Loader, too_long_samples_are_cut_where_the_job_says_so) {
  LoadJob job({"rows=50", "rows=101", "rows=400 uncuttable", "rows=60"});
  job.config.data.shuffle = false;
  job.config.data.too_long = "cut";
  job.max_samples = 4;
  const auto out = job.run(1, 1);
  EXPECT_EQ(global_batches(out), (Batches{{{0}}, {{1}}, {{3}}}));
  EXPECT_EQ(out[0][1].rows[0], 100);
  EXPECT_EQ(out[0].back().after,
            (DataPosition{.samples_seen = 4, .bad_samples = 0, .long_samples = 1, .cut_samples = 1}));
}

TEST(Loader, waiting_for_a_slow_sample_is_measured) {
  LoadJob job(mixed_texts(20));
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  job.model.before_collate = [open] { open.wait(); };
  LocalExchange alone;
  job.last_step = 1;
  Loader loader(job.inputs(alone));
  auto work = std::async(std::launch::async, [&] { return loader.next(); });
  EXPECT_EQ(work.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  gate.set_value();
  EXPECT_GE(work.get().wait_seconds, 0.02);
}

TEST(Loader, it_loads_ahead_but_no_further_than_it_may) {
  LoadJob job(std::vector<std::string>(50, "rows=100"));
  job.config.data.prefetch_steps = 2;
  job.last_step = 40;
  LocalExchange alone;
  Loader loader(job.inputs(alone));
  for (int taken = 1; taken <= 10; ++taken) {
    loader.next();
    EXPECT_LE(job.model.collate_calls, taken + 1 + 2 + 1);  // one ready, two under way, one that next() made room for
  }
}

TEST(Loader, it_can_be_destroyed_at_any_moment_and_releases_everything) {
  LoadJob job(mixed_texts(60));
  job.config.data.micro_batches = 2;
  job.last_step = 1000;
  std::mt19937 dice(8);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + round % 3;
    const auto meeting = std::make_shared<Meeting>(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      const int steps = static_cast<int>(dice() % 3);
      threads.emplace_back([&job, meeting, rank, steps] {
        ThreadExchange exchange(meeting, rank);
        Loader loader(job.inputs(exchange));
        try {
          for (int i = 0; i < steps; ++i) loader.next();
        } catch (const Error& error) {
          EXPECT_EQ(error.exit(), Exit::kUnavailable) << error.what();  // a peer has left before
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(job.model.live_tensors, 0);
  }
}

TEST(StepEstimate, is_exact_where_all_samples_are_looked_at) {
  LoadJob job(mixed_texts(90));
  job.max_samples = 90;
  const size_t actual = job.run(1, 3)[0].size();
  LocalExchange alone;
  const StepEstimate exact = estimate_steps(job.inputs(alone), 1000);
  EXPECT_TRUE(exact.exact);
  EXPECT_EQ(exact.steps, static_cast<int64_t>(actual));
  EXPECT_EQ(exact.samples_read, 90u);
  const StepEstimate sampled = estimate_steps(job.inputs(alone), 45);
  EXPECT_FALSE(sampled.exact);
  EXPECT_NEAR(static_cast<double>(sampled.steps), static_cast<double>(actual), 0.2 * static_cast<double>(actual));
}

// A step that asks for more than memory or patience allow must not keep a rank from hearing that it shall stop.
TEST(Loader, a_stop_that_one_rank_hears_while_a_step_is_gathered_ends_loading_on_all_without_a_step) {
  LoadJob job(texts_of_rows(64, 1));
  job.config.data.micro_batches = 500'000;
  const auto meeting = std::make_shared<Meeting>(2);
  std::atomic<int> asked = 0;
  std::vector<std::future<bool>> stopped;
  for (int rank = 0; rank < 2; ++rank)
    stopped.push_back(std::async(std::launch::async, [&, rank] {
      ThreadExchange exchange(meeting, rank);
      LoaderInputs inputs = job.inputs(exchange);
      inputs.last_step = 3;
      if (rank == 1) inputs.stop_requested = [&] { return ++asked > 5; };  // in the middle of the first step
      return Loader(inputs).next().stopped;
    }));
  for (auto& rank : stopped) EXPECT_TRUE(rank.get());
}

TEST(Loader, steps_gathered_before_a_stop_are_given_or_dropped_on_all_ranks_alike) {
  LoadJob job(texts_of_rows(64, 10));
  job.config.data.micro_batches = 2;
  const auto meeting = std::make_shared<Meeting>(2);
  std::atomic<bool> stop = false;
  std::vector<std::future<int>> steps;
  for (int rank = 0; rank < 2; ++rank)
    steps.push_back(std::async(std::launch::async, [&, rank] {
      ThreadExchange exchange(meeting, rank);
      LoaderInputs inputs = job.inputs(exchange);
      inputs.last_step = 1000;
      if (rank == 0) inputs.stop_requested = [&] { return stop.load(); };
      Loader loader(inputs);
      int given = 0;
      while (!loader.next().stopped)
        if (++given == 3) stop = true;
      return given;
    }));
  const int first = steps[0].get();
  EXPECT_GE(first, 3);
  EXPECT_EQ(steps[1].get(), first);
}

}  // namespace
}  // namespace lf
