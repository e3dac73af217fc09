#include "weights/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace lf {
namespace {

// A small float format from its definition: exact in double.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity = true;

  double value(unsigned bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1),
                   mantissa = bits & ((1u << mantissa_bits) - 1);
    const double sign = (bits >> (exponent_bits + mantissa_bits) & 1u) != 0 ? -1 : 1;
    const double unit = std::ldexp(1.0, -mantissa_bits);
    if (has_infinity && exponent == (1u << exponent_bits) - 1)
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    if (exponent == 0) return sign * std::ldexp(mantissa * unit, 1 - bias);
    return sign * std::ldexp(1.0 + mantissa * unit, static_cast<int>(exponent) - bias);
  }
};
constexpr Format kBf16{8, 7}, kF16{5, 10};

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

TEST(Convert, all_65536_values_of_bf16_and_f16_widen_exactly_and_come_back_unchanged) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float from_bf16 = f32_from_bf16(half), from_f16 = f32_from_f16(half);
    if (std::isnan(kBf16.value(bits))) {
      ASSERT_TRUE(std::isnan(from_bf16)) << bits;
    } else {
      ASSERT_TRUE(same_bits(from_bf16, static_cast<float>(kBf16.value(bits)))) << bits;
    }
    if (std::isnan(kF16.value(bits))) {
      ASSERT_TRUE(std::isnan(from_f16)) << bits;
    } else {
      ASSERT_TRUE(same_bits(from_f16, static_cast<float>(kF16.value(bits)))) << bits;
    }
    ASSERT_EQ(bf16_from_f32(from_bf16), half) << bits;  // NaN payloads too: unchanged models must stay the same bytes
    ASSERT_EQ(f16_from_f32(from_f16), half) << bits;
  }
}

// Around every value: the midpoints to its neighbour go to the even one, and one step of fp32 off them to the nearer.
void check_rounding(const Format& format, uint16_t (*narrow)(float), unsigned infinity) {
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double low = format.value(bits);
    // Above the largest value the scale goes on as if there were one more.
    const double high = bits + 1 == infinity ? 2 * low - format.value(bits - 1) : format.value(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    const unsigned even = (bits & 1u) == 0 ? bits : bits + 1;
    for (const unsigned sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(narrow(s * middle), sign | even) << bits;
      ASSERT_EQ(narrow(s * std::nextafter(middle, 0.0f)), sign | bits) << bits;
      ASSERT_EQ(narrow(s * std::nextafter(middle, std::numeric_limits<float>::infinity())), sign | (bits + 1)) << bits;
    }
  }
}

TEST(Convert, fp32_rounds_to_the_nearest_even_at_every_border_of_bf16_and_f16) {
  check_rounding(kBf16, bf16_from_f32, 0x7f80);
  check_rounding(kF16, f16_from_f32, 0x7c00);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(f16_from_f32(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f16_from_f32(1e30f), 0x7c00);
}

TEST(Convert, every_nan_stays_a_nan) {
  for (uint32_t payload = 1; payload < 0x800000; payload += 97) {
    const float nan = std::bit_cast<float>(0x7f800000u | payload);
    ASSERT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(nan)))) << payload;
    ASSERT_TRUE(std::isnan(f32_from_f16(f16_from_f32(nan)))) << payload;
  }
}

TEST(Convert, all_256_values_of_fp8_follow_the_definition) {
  const Format e4m3{4, 3, false};
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = f32_from_f8_e4m3(static_cast<uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_TRUE(same_bits(value, static_cast<float>(e4m3.value(bits)))) << bits;
    }
  }
  EXPECT_EQ(f32_from_f8_e4m3(0x7e), 448.0f);
}

TEST(Convert, a_double_is_rounded_once) {
  // Just above the middle of 1 and the next bf16: by way of fp32 it would be the middle, and go down to even.
  const double above = 1.0 + 0x1p-8 + 0x1p-40;
  uint16_t half = 0;
  convert(DType::kF64, &above, DType::kBf16, &half, 1);
  EXPECT_EQ(half, 0x3f81);
  const double below = 1.0 + 3 * 0x1p-8 - 0x1p-40;
  convert(DType::kF64, &below, DType::kBf16, &half, 1);
  EXPECT_EQ(half, 0x3f81);
  const double f16_above = 1.0 + 0x1p-11 + 0x1p-50;
  convert(DType::kF64, &f16_above, DType::kF16, &half, 1);
  EXPECT_EQ(half, 0x3c01);
}

TEST(Convert, runs_need_no_alignment_and_any_two_float_types_convert) {
  std::mt19937 engine{5};
  std::uniform_int_distribution<int> small(-128, 128);
  const std::vector<DType> types = {DType::kF32, DType::kBf16, DType::kF16, DType::kF64};
  std::vector<float> values(1001);
  for (float& value : values) value = static_cast<float>(small(engine));  // exact in all four
  for (const DType from : types) {
    for (const DType to : types) {
      ASSERT_TRUE(is_convertible(from, to));
      std::vector<char> a(1 + values.size() * 8), b(1 + values.size() * 8);
      std::vector<float> back(values.size());
      convert(DType::kF32, values.data(), from, a.data() + 1, 1001);
      convert(from, a.data() + 1, to, b.data() + 1, 1001);
      convert(to, b.data() + 1, DType::kF32, back.data(), 1001);
      ASSERT_EQ(back, values) << dtype_name(from) << " to " << dtype_name(to);
    }
  }
  EXPECT_FALSE(is_convertible(DType::kI64, DType::kF32));
  EXPECT_FALSE(is_convertible(DType::kF32, DType::kF8E4M3));
}

}  // namespace
}  // namespace lf
