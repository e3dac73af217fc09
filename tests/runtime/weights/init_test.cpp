#include "weights/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "weights/convert.h"

namespace lf {
namespace {

ParameterInfo parameter(std::string name, std::vector<int64_t> shape, int32_t init, double a, double b) {
  ParameterInfo made;
  made.name = name;
  made.shape = shape;
  made.init = init;
  made.init_a = a;
  made.init_b = b;
  ParameterPart part;
  part.name = name;
  part.shape = shape;
  made.parts = {part};
  return made;
}

std::vector<float> values(const ParameterInfo& of, uint64_t seed) {
  std::vector<float> out(static_cast<size_t>(whole(of.shape).elements()));
  initialise(of, seed, kAlone, whole(of.shape), DType::kF32, out.data());
  return out;
}

// Known answers of the authors' library (Random123, kat_vectors, philox4x32 10).
TEST(Init, philox_gives_the_published_known_answers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Largest distance between the sample's and the true distribution function, times sqrt(n).
template <typename Cdf>
double kolmogorov_smirnov(std::vector<float> sample, Cdf&& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double at = cdf(sample[i]);
    distance = std::max({distance, at - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - at});
  }
  return distance * std::sqrt(n);
}

TEST(Init, normal_values_have_the_mean_deviation_and_shape_asked_for) {
  const std::vector<float> sample = values(parameter("w", {1000, 1000}, LF_INIT_NORMAL, 0.5, 0.02), 1);
  double sum = 0, squares = 0;
  for (const float v : sample) sum += v;
  const double mean = sum / 1e6;
  for (const float v : sample) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(mean, 0.5, 5 * 0.02 / 1000);                       // five standard errors
  EXPECT_NEAR(std::sqrt(squares / 1e6), 0.02, 5 * 0.02 / 1414);  // sigma / sqrt(2n)
  const double ks =
      kolmogorov_smirnov(sample, [](double x) { return 0.5 * std::erfc(-(x - 0.5) / 0.02 / std::sqrt(2.0)); });
  EXPECT_LT(ks, 1.95);  // p = 0.001
  double product = 0;   // neighbours, which Box and Muller make of one pair, are uncorrelated
  for (size_t i = 0; i + 1 < sample.size(); i += 2) product += (sample[i] - mean) * (sample[i + 1] - mean);
  EXPECT_NEAR(product / 5e5 / (0.02 * 0.02), 0, 5 / std::sqrt(5e5));
}

TEST(Init, uniform_values_fill_their_half_open_range) {
  const std::vector<float> sample = values(parameter("w", {300'000}, LF_INIT_UNIFORM, -0.25, 0.75), 1);
  EXPECT_GE(*std::min_element(sample.begin(), sample.end()), -0.25f);
  EXPECT_LT(*std::max_element(sample.begin(), sample.end()), 0.75f);
  EXPECT_LT(kolmogorov_smirnov(sample, [](double x) { return x + 0.25; }), 1.95);
}

TEST(Init, zeros_and_ones_are_exact) {
  EXPECT_EQ(values(parameter("b", {5}, LF_INIT_ZEROS, 0, 0), 1), std::vector<float>(5, 0.0f));
  EXPECT_EQ(values(parameter("n", {5}, LF_INIT_ONES, 0, 0), 1), std::vector<float>(5, 1.0f));
}

TEST(Init, names_and_seeds_give_other_values_and_the_same_ones_the_same_bits) {
  const auto w = values(parameter("layers.0.w", {64}, LF_INIT_NORMAL, 0, 1), 1);
  EXPECT_EQ(w, values(parameter("layers.0.w", {64}, LF_INIT_NORMAL, 0, 1), 1));
  EXPECT_NE(w, values(parameter("layers.1.w", {64}, LF_INIT_NORMAL, 0, 1), 1));
  EXPECT_NE(w, values(parameter("layers.0.w", {64}, LF_INIT_NORMAL, 0, 1), 2));
}

TEST(Init, a_cut_parameter_gets_the_same_values_as_a_whole_one) {
  ParameterInfo qkv = parameter("qkv", {26, 5}, LF_INIT_NORMAL, 0, 1);
  qkv.parts.clear();
  for (const auto& [name, rows, flags] : {std::tuple{"q", int64_t{18}, 0u},
                                          {"k", int64_t{4}, unsigned{LF_PART_COPY}},
                                          {"v", int64_t{4}, unsigned{LF_PART_COPY}}}) {
    ParameterPart part;
    part.name = name;
    part.shape = {rows, 5};
    part.along = LF_ALONG_TP;
    part.piece = 2;
    part.flags = flags;
    qkv.parts.push_back(part);
  }
  check_parameters({qkv});
  const std::vector<float> all = values(qkv, 9);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Place place{rank, 4, 0, 1};
    const std::vector<int64_t> shape = local_shape(qkv, place);
    Box half = whole(shape);  // and in two boxes, by columns
    for (const auto& [begin, end] : {std::pair{0, 2}, std::pair{2, 5}}) {
      half.begin[1] = begin;
      half.end[1] = end;
      std::vector<float> mine(static_cast<size_t>(half.elements()), NAN);
      initialise(qkv, 9, place, half, DType::kF32, mine.data());
      for (const HeldBox& held : held_boxes(qkv, place)) {
        for (int64_t row = held.local.begin[0]; row < held.local.end[0]; ++row) {
          const int64_t full_row = held.full.begin[0] + row - held.local.begin[0];
          for (int64_t column = begin; column < end; ++column)
            ASSERT_EQ(mine[static_cast<size_t>(row * (end - begin) + column - begin)],
                      all[static_cast<size_t>(full_row * 5 + column)]);
        }
      }
    }
  }
}

TEST(Init, bf16_values_are_the_fp32_ones_rounded) {
  const ParameterInfo w = parameter("w", {33}, LF_INIT_NORMAL, 0, 1);
  const std::vector<float> exact = values(w, 3);
  std::vector<uint16_t> narrow(33);
  initialise(w, 3, kAlone, whole(w.shape), DType::kBf16, narrow.data());
  for (size_t i = 0; i < narrow.size(); ++i) EXPECT_EQ(narrow[i], bf16_from_f32(exact[i]));
}

}  // namespace
}  // namespace lf
