#include "pi05/data/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "refusal.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using test::refusal;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

std::vector<float> applied(const Normalizer& normalizer, std::vector<float> values) {
  normalizer.apply(values);
  return values;
}

TEST(Normalizer, quantiles_become_minus_one_and_one_and_values_beyond_are_not_clipped) {
  const Statistics statistics{{}, {1, 2}, {-1, 10}, {3, 20}};
  const Normalizer normalizer(statistics, Normalization::kQuantiles, 1);
  EXPECT_THAT(applied(normalizer, {-1, 20, 3, 10, 1, 40}),
              ElementsAre(FloatEq(-1), FloatEq(1), FloatEq(1), FloatEq(-1), FloatEq(0), FloatEq(5)));
  EXPECT_TRUE(normalizer.floored().empty());
}

TEST(Normalizer, other_ranges_that_lerobot_has_become_minus_one_and_one_too) {
  const json stats = {{"action", {{"std", {2}}, {"min", {-4}}, {"max", {4}}, {"q10", {0}}, {"q90", {3}}}}};
  const auto normalizer = [&](Normalization kind) {
    return Normalizer(read_statistics(stats, "action", 1, kind, "stats.json"), kind, 0.5);
  };
  EXPECT_THAT(applied(normalizer(Normalization::kRange), {-4, 4, 1}), ElementsAre(-1, 1, 0.25f));
  EXPECT_THAT(applied(normalizer(Normalization::kInnerQuantiles), {0, 3, 4.5f}), ElementsAre(-1, 1, 2));
  EXPECT_THAT(refusal([&] { normalizer(Normalization::kQuantiles); }), HasSubstr("expected q01, got none"));
}

TEST(Normalizer, means_become_zero_and_deviations_one) {
  const Normalizer normalizer({{5}, {2}, {}, {}}, Normalization::kMeanDeviation, 1);
  EXPECT_THAT(applied(normalizer, {5, 7, 1}), ElementsAre(FloatEq(0), FloatEq(1), FloatEq(-2)));
}

TEST(Normalizer, a_number_that_hardly_ever_changes_does_not_become_thousands) {
  // openpi issue 814: the few values outside of a range of 0.001 became -3200.
  const Statistics statistics{{}, {0.05f}, {0}, {0.001f}};
  EXPECT_LT(applied(Normalizer(statistics, Normalization::kQuantiles, 0), {-1.6f})[0], -3000);
  const Normalizer floored(statistics, Normalization::kQuantiles, 1);
  EXPECT_FLOAT_EQ(applied(floored, {-1.6f})[0], 2 * -1.6f / 0.05f - 1);
  EXPECT_THAT(floored.floored(), ElementsAre(0));
}

TEST(Normalizer, a_constant_gives_nearly_the_same_number_for_values_that_differ_by_rounding) {
  const Normalizer normalizer({{}, {0}, {512}, {512}}, Normalization::kQuantiles, 1);
  EXPECT_FLOAT_EQ(applied(normalizer, {512})[0], -1);
  EXPECT_NEAR(applied(normalizer, {std::nextafter(512.0f, 600.0f)})[0], -1, 0.01);
}

TEST(Normalizer, without_normalization_nothing_changes) {
  EXPECT_THAT(applied(Normalizer({}, Normalization::kNone, 1), {3, -4}), ElementsAre(3, -4));
}

TEST(Statistics, what_is_missing_or_wrong_is_named) {
  const auto read = [](const json& stats, Normalization kind = Normalization::kQuantiles) {
    return refusal([&] { read_statistics(stats, "action", 2, kind, "stats.json"); });
  };
  const json good = {{"std", {1, 1}}, {"mean", {0, 0}}, {"q01", {0, 0}}, {"q99", {1, 1}}};
  EXPECT_EQ(read({{"action", good}}), "");
  EXPECT_EQ(read({{"other", good}}), "invalid: stats.json: expected statistics of \"action\"");
  json lacking = good;
  lacking.erase("q01");
  EXPECT_THAT(read({{"action", lacking}}),
              HasSubstr("invalid: stats.json: action: expected q01, got none; run "
                        "lerobot's augment_dataset_quantile_stats.py, or choose mean_std"));
  EXPECT_EQ(read({{"action", lacking}}, Normalization::kMeanDeviation), "");
  EXPECT_EQ(read(json::object(), Normalization::kNone), "");
  json shorter = good;
  shorter["q99"] = {1};
  EXPECT_EQ(read({{"action", shorter}}), "invalid: stats.json: action.q99: expected 2 numbers, got 1");
  json text = good;
  text["std"] = {1, "x"};
  EXPECT_EQ(read({{"action", text}}), "invalid: stats.json: action.std: expected finite numbers, got \"x\"");
  json crossed = good;
  crossed["q01"] = {0, 2};
  EXPECT_THAT(read({{"action", crossed}}), HasSubstr("number 1 has q01 = 2 above q99 = 1"));
}

}  // namespace
}  // namespace lf::robot
