// Samples that turn out to be bad, on one rank or before: all ranks go on alike, or stop alike.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "load_job.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

using Batches = std::vector<std::vector<std::vector<uint64_t>>>;

std::vector<nlohmann::json> skipped_list(const LoadJob& job) {
  std::vector<nlohmann::json> out;
  std::ifstream file(job.config.job.output / "skipped.jsonl");
  for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST(BadSamples, what_the_header_tells_is_passed_over_on_all_ranks_counted_and_listed) {
  LoadJob job({"rows=60", "rows=60 bad_features", "broken line", "rows=60", "rows=60", "rows=60"});
  job.config.data.shuffle = false;
  job.max_samples = 6;
  for (const int ranks : {1, 2, 4}) {
    const auto out = job.run(ranks, 4 / ranks);
    EXPECT_EQ(global_batches(out), (Batches{{{0}, {3}, {4}, {5}}}));
    for (const auto& rank : out) EXPECT_EQ(rank[0].after, (DataPosition{6, 2, 0, 0}));
    const auto list = skipped_list(job);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0], (nlohmann::json{{"step", 1},
                                       {"position", 1},
                                       {"sample", 1},
                                       {"kind", "bad"},
                                       {"reason", "data.jsonl:2: picture.png: 50000 x 50000 pixels"}}));
    EXPECT_THAT(std::string(list[1]["reason"]), StartsWith("data.jsonl:3: not valid JSON"));
  }
}

TEST(BadSamples, what_only_decoding_tells_is_dropped_and_the_weights_are_corrected_everywhere) {
  LoadJob job({"rows=30 weight=5", "rows=30 weight=7 images=2 bad_when_decoded", "rows=30 weight=11",
               "rows=90 weight=13", "rows=90 weight=17 bad_when_decoded", "rows=90 weight=19"});
  job.config.data.shuffle = false;
  job.max_samples = 6;
  for (const int ranks : {1, 2, 4}) {
    const auto out = job.run(ranks, 4 / ranks);
    EXPECT_EQ(global_batches(out), (Batches{{{0, 2}, {3}, {}, {5}}})) << ranks << " ranks";
    for (const auto& rank : out) {
      EXPECT_EQ(rank[0].global_loss_weight, 5 + 11 + 13 + 19);
      EXPECT_EQ(rank[0].global_rows, 30 + 30 + 90 + 90);
      EXPECT_EQ(rank[0].global_samples, 4);
      EXPECT_EQ(rank[0].after, (DataPosition{6, 2, 0, 0}));
    }
    EXPECT_EQ(out[0][0].loss_weight[0], 16);
    EXPECT_EQ(out[0][0].rows[0], 60);
    const auto list = skipped_list(job);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[1]["reason"], "data.jsonl:5: picture.png: the JPEG ends early");
    EXPECT_EQ(job.model.live_tensors, 0);
  }
}

TEST(BadSamples, too_many_stop_the_run_at_the_same_step_on_every_rank) {
  std::vector<std::string> texts(400, "rows=60");
  for (int i = 100; i < 400; i += 4) texts[i] += i % 8 == 0 ? " bad_features" : " bad_when_decoded";
  LoadJob job(texts);
  job.config.data.shuffle = false;
  job.config.data.max_bad = 0.05;
  job.max_samples = 400;
  size_t steps = 0;
  for (const int ranks : {1, 2, 4}) {
    const auto out = job.run(ranks, 4 / ranks);
    EXPECT_THAT(job.errors,
                Each(AllOf(StartsWith("65: "), HasSubstr("more than data.max_bad = 0.05"), HasSubstr("data.jsonl:"))));
    EXPECT_THAT(job.errors, Each(job.errors[0]));
    if (steps == 0) steps = out[0].size();
    EXPECT_GT(steps, 20u);  // a hundred good samples first
    EXPECT_LT(steps, 60u);
    for (const auto& rank : out) EXPECT_EQ(rank.size(), steps);
  }
}

TEST(BadSamples, a_handful_never_stops_a_run_unless_none_is_allowed) {
  std::vector<std::string> texts(40, "rows=60");
  for (int i = 0; i < 10; ++i) texts[i * 3 + 1] += i % 2 == 0 ? " bad_features" : " bad_when_decoded";
  LoadJob job(texts);
  job.config.data.max_bad = 0.001;
  job.max_samples = 40;
  const auto out = job.run(2, 1);
  EXPECT_EQ(job.errors[0], "");
  EXPECT_EQ(out[0].back().after.bad_samples, 10u);
  job.config.data.max_bad = 0;
  job.run(2, 1);
  EXPECT_THAT(job.errors, Each(StartsWith("65: data: 1 of ")));
}

TEST(BadSamples, a_data_set_of_nothing_but_bad_ones_ends_at_once) {
  LoadJob job(std::vector<std::string>(500, "rows=60 bad_features"));
  job.config.data.max_bad = 0.9;
  job.last_step = 10;
  EXPECT_TRUE(job.run(2, 1)[0].empty());
  EXPECT_THAT(job.errors, Each(AllOf(StartsWith("65: data: 11 of 11 samples are bad"), HasSubstr("50000 x 50000"))));
  EXPECT_LT(job.model.features_calls, 200);
  EXPECT_EQ(skipped_list(job).size(), 11u);
}

TEST(BadSamples, a_data_set_of_nothing_but_long_ones_ends_after_one_epoch) {
  LoadJob job(std::vector<std::string>(50, "rows=101"));
  job.last_step = 10;
  job.run(2, 2);
  EXPECT_THAT(job.errors,
              Each(AllOf(StartsWith("65: "), HasSubstr("none of 50 samples in a row is usable: 0 bad, 50 longer"),
                         HasSubstr("101 tokens; data.max_tokens is 100"))));
}

TEST(BadSamples, a_resumed_run_lists_no_sample_twice) {
  std::vector<std::string> texts(30, "rows=60");
  for (int i = 2; i < 30; i += 5) texts[i] += " bad_features";
  LoadJob job(texts);
  job.config.data.shuffle = false;
  job.max_samples = 30;
  const auto straight = job.run(1, 2);
  const auto list = skipped_list(job);
  EXPECT_EQ(list.size(), 6u);
  job.position = straight[0][4].after;
  job.first_step = 5;
  job.run(1, 2);
  EXPECT_EQ(skipped_list(job), list);
}

TEST(Failures, a_fault_of_the_family_stops_all_ranks_and_names_the_rank) {
  for (const char* fault : {"broken_features", "broken_collate"}) {
    std::vector<std::string> texts(40, "rows=60");
    texts[20] += std::string(" ") + fault;
    LoadJob job(texts);
    job.config.data.shuffle = false;
    job.max_samples = 40;
    const auto out = job.run(4, 1);
    EXPECT_THAT(job.errors,
                Each(AllOf(StartsWith("70: rank "), HasSubstr("data.jsonl:"), HasSubstr("the family has a fault"))))
        << fault;
    EXPECT_THAT(job.errors, Each(job.errors[0]));
    for (const auto& rank : out) EXPECT_EQ(rank.size(), out[0].size());
    EXPECT_EQ(job.model.live_tensors, 0);
  }
}

TEST(Failures, a_family_whose_collate_makes_other_rows_than_it_said_is_caught) {
  LoadJob job({"rows=60", "rows=60 wrong_rows"});
  job.config.data.shuffle = false;
  job.max_samples = 2;
  job.run(1, 1);
  EXPECT_THAT(job.errors[0],
              AllOf(StartsWith("70: "), HasSubstr("features said 60 rows for 1 samples, its collate made 61")));
}

TEST(Failures, a_peer_that_is_gone_ends_next_with_the_exchanges_error) {
  LoadJob job(std::vector<std::string>(40, "rows=60"));
  job.last_step = 10;
  const auto meeting = std::make_shared<Meeting>(2);
  ThreadExchange exchange(meeting, 0);
  Loader loader(job.inputs(exchange));  // the other rank never comes
  exchange.abort();                     // what its group would do on noticing
  EXPECT_THROW(loader.next(), Error);
}

}  // namespace
}  // namespace lf
