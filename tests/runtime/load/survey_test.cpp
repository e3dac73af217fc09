#include "load/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load_job.h"

namespace lf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Survey look(LoadJob& job, uint64_t most) {
  return survey(*job.dataset, ModelCalls(&FakeModel::table(), job.model.handle()), job.config.data, most);
}

std::string refusal(const Survey& seen, const DataSection& options) {
  try {
    require_trainable(seen, options);
  } catch (const Error& error) {
    return fmt::format("{} {}", static_cast<int>(error.exit()), error.what());
  }
  return "";
}

std::vector<std::string> texts(int count, const std::string& text) { return std::vector<std::string>(count, text); }

TEST(Survey, looks_at_so_many_samples_spread_over_all_of_them) {
  LoadJob job(texts(100, "rows=5 weight=2"));
  job.model.features_calls = 0;
  const Survey seen = look(job, 4);
  EXPECT_EQ(seen.looked_at, 4u);
  EXPECT_EQ(job.model.features_calls, 4);
  EXPECT_THAT(seen.usable_index, ElementsAre(0, 25, 50, 75));
  EXPECT_EQ(seen.rows(), 20);
  EXPECT_EQ(seen.loss_weight(), 8);
  EXPECT_EQ(look(job, 1000).looked_at, 100u);
}

TEST(Survey, tells_bad_long_and_cut_samples_apart) {
  LoadJob job({"rows=5 weight=2", "rows=300 weight=2", "bad_features", "rows=7 weight=1"});
  job.config.data.max_tokens = 100;
  Survey seen = look(job, 64);
  EXPECT_EQ(seen.bad, 1u);
  EXPECT_THAT(seen.first_bad, HasSubstr(":3"));
  EXPECT_EQ(seen.too_long, 1u);
  EXPECT_EQ(seen.shortest, 5);
  EXPECT_EQ(seen.longest, 300);
  EXPECT_THAT(seen.usable_index, ElementsAre(0, 3));
  job.config.data.too_long = "cut";
  seen = look(job, 64);
  EXPECT_EQ(seen.cut, 1u);
  EXPECT_THAT(seen.usable_index, ElementsAre(0, 1, 3));
  EXPECT_EQ(seen.rows(), 112);
}

TEST(Survey, a_limit_below_every_sample_can_train_nothing_and_the_least_that_could_is_named) {
  LoadJob job(texts(20, "rows=50 weight=9"));
  job.config.data.max_tokens = 1;
  EXPECT_THAT(refusal(look(job, 64), job.config.data),
              testing::AllOf(HasSubstr("78 data.max_tokens: each of 20 samples looked at is longer than 1 token"),
                             HasSubstr("the shortest has 50 tokens")));
  job.config.data.max_tokens = 50;
  EXPECT_EQ(refusal(look(job, 64), job.config.data), "");
}

TEST(Survey, bad_samples_are_refused_by_the_rule_that_would_end_the_run) {
  LoadJob all(texts(20, "bad_features"));
  EXPECT_THAT(refusal(look(all, 64), all.config.data), HasSubstr("65 data.path: each of 20 samples looked at is bad"));
  std::vector<std::string> mixed = texts(60, "rows=5 weight=2");
  for (int i = 0; i < 11; ++i) mixed[5 * i] = "bad_features";
  LoadJob some(mixed);
  some.config.data.max_bad = 0.1;
  EXPECT_THAT(refusal(look(some, 64), some.config.data), HasSubstr("65 data.path: 11 of 60 samples looked at are bad"));
  some.config.data.max_bad = 0.2;
  EXPECT_EQ(refusal(look(some, 64), some.config.data), "");
}

TEST(Survey, a_share_of_bad_samples_that_will_end_the_run_is_refused_and_one_that_may_is_warned_of) {
  DataSection options;
  options.max_bad = 0.001;
  Survey seen;
  seen.looked_at = 64;
  seen.bad = 8;
  seen.first_bad = "train.jsonl:7: no picture";
  const auto told = [&](uint64_t size, double samples) -> std::string {
    try {
      return foreseen_bad(seen, options, size, samples);
    } catch (const Error& error) {
      return fmt::format("{} {}", static_cast<int>(error.exit()), error.what());
    }
  };
  // Some 125 of 1000 will be bad, and 10 may be: 8 or more of 64 come by chance once in a million if it were only 10.
  EXPECT_THAT(told(1000, 1000),
              HasSubstr("65 data.path: expected at most 10 bad of the 1000 samples that the run meets"));
  EXPECT_THAT(told(1000, 1000), HasSubstr("got 8 bad of 64 looked at (12.5%)"));
  // All were looked at: one pass meets 8 of the 10 that may be, two passes meet 16.
  EXPECT_THAT(told(64, 64), HasSubstr("passes over at most 10 of the 64 samples that it meets, and ends with code 65"));
  EXPECT_THAT(told(64, 128), HasSubstr("65 data.path: "));
  // A short run on large data meets too few to tell.
  EXPECT_THAT(told(1000, 20), testing::StartsWith("8 bad, 12.5% of those looked at, where data.max_bad is 0.001"));
  options.max_bad = 0.2;
  EXPECT_EQ(told(1000, 1000), "");
  options.max_bad = 0.001;
  seen.bad = 1;  // of 64, where one of 100 may be: half of all such jobs
  EXPECT_THAT(told(1000, 1000), testing::StartsWith("1 bad, 1.56% of those looked at"));
  seen.bad = 0;
  EXPECT_EQ(told(1000, 1000), "");
}

TEST(Survey, a_step_larger_than_the_data_is_warned_of_with_its_passes_and_memory) {
  LoadJob job(texts(50, "rows=10 weight=5"));
  const ModelCalls calls(&FakeModel::table(), job.model.handle());
  job.config.data.max_tokens = 100;
  job.config.data.micro_batches = 20;
  job.config.data.prefetch_steps = 2;
  const Survey seen = look(job, 64);
  const StepSize step = step_size(seen, *job.dataset, calls, job.config.data, 2);
  EXPECT_EQ(step.samples, 400);  // 2 ranks of 20 micro-batches of 10 samples
  EXPECT_EQ(step.passes, 8);
  // Of the fake family: 8 bytes a row and 8 for the sample; a rank has 200 samples in a step, and three steps.
  EXPECT_NEAR(static_cast<double>(step.bytes_per_rank), 200 * 88 * 3, 1);
  EXPECT_EQ(job.model.live_tensors, 0);
  EXPECT_THAT(
      step_size_warning(step, job.config.data, 2, uint64_t{1} << 40),
      testing::AllOf(HasSubstr("about 400 samples, 8 passes over the data"), HasSubstr("52.8 kB for each rank")));
  job.config.data.micro_batches = 1;
  EXPECT_EQ(step_size_warning(step_size(seen, *job.dataset, calls, job.config.data, 1), job.config.data, 1,
                              uint64_t{1} << 40),
            "");
}

}  // namespace
}  // namespace lf
