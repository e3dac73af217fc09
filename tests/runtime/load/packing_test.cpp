#include "load/packing.h"

#include <deque>

#include <gtest/gtest.h>

namespace lf {
namespace {

class ListStream final : public SampleStream {
 public:
  explicit ListStream(const std::vector<int64_t>& rows) {
    for (const int64_t r : rows) {
      JudgedSample sample;
      sample.index = sample.position = samples_.size();
      if (r == 0) {
        sample.verdict = Verdict::kBad;
        sample.reason = "a:1: bad";
      } else {
        sample.features = {.atoms = {1}, .numbers = {{static_cast<double>(r), 1.0}}};
      }
      samples_.push_back(sample);
    }
  }
  const JudgedSample* peek() override { return samples_.empty() ? nullptr : &samples_.front(); }
  JudgedSample pop() override {
    JudgedSample out = samples_.front();
    samples_.pop_front();
    return out;
  }

 private:
  std::deque<JudgedSample> samples_;
};

const PackRules kRules{.max_rows = 10, .micro_batches = 3, .packing = true, .epoch = 100, .max_bad = 0.5};

TEST(PackStep, a_step_ends_before_the_sample_that_needs_one_more_micro_batch) {
  ListStream stream({4, 6, 5, 6, 10, 1, 1});
  const PackedStep step = pack_step(stream, kRules, {});
  EXPECT_EQ(step.micro_batch, (std::vector<uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(step.after.samples_seen, 4u);
  EXPECT_FALSE(step.last);
  const PackedStep next = pack_step(stream, kRules, step.after);
  EXPECT_EQ(next.micro_batch, (std::vector<uint32_t>{0, 1, 2})) << "the fullest is halved";
  EXPECT_TRUE(next.last);
}

TEST(PackStep, bad_samples_at_the_end_of_a_step_belong_to_it_so_that_the_next_begins_usable) {
  ListStream stream({10, 10, 10, 0, 0, 10});
  const PackedStep step = pack_step(stream, kRules, {});
  EXPECT_EQ(step.samples.size(), 3u);
  EXPECT_EQ(step.skipped.size(), 2u);
  EXPECT_EQ(step.after.samples_seen, 5u);
  EXPECT_EQ(step.after.bad_samples, 2u);
  EXPECT_FALSE(step.last);
}

TEST(PackStep, a_stream_that_ends_in_bad_samples_makes_the_step_before_them_the_last) {
  ListStream stream({10, 10, 10, 0, 0});
  const PackedStep step = pack_step(stream, kRules, {});
  EXPECT_EQ(step.after.samples_seen, 5u);
  EXPECT_TRUE(step.last);
}

TEST(PackStep, nothing_usable_is_told_and_not_packed) {
  ListStream stream({0, 0});
  const PackedStep step = pack_step(stream, kRules, {});
  ASSERT_TRUE(step.stop.has_value());
  EXPECT_EQ(step.stop->exit(), Exit::kBadData);
}

TEST(PackStep, where_earlier_steps_took_all_there_is_neither_a_step_nor_an_error) {
  ListStream stream({});
  const PackedStep step = pack_step(stream, kRules, {.samples_seen = 7});
  EXPECT_TRUE(step.none_left);
  EXPECT_FALSE(step.stop.has_value());
  EXPECT_TRUE(pack_step(stream, kRules, {}).stop.has_value()) << "at the very beginning it is one";
}

TEST(TooManyBad, the_share_counts_beyond_a_handful) {
  EXPECT_FALSE(too_many_bad(10, 10, 0.001));
  EXPECT_TRUE(too_many_bad(11, 10'000, 0.001));
  EXPECT_FALSE(too_many_bad(11, 11'000, 0.001));
  EXPECT_TRUE(too_many_bad(1, 1'000'000, 0));
  EXPECT_FALSE(too_many_bad(0, 0, 0));
  EXPECT_FALSE(too_many_bad(500, 500, 1));
}

}  // namespace
}  // namespace lf
