#include "weights/convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace lf {
namespace {

constexpr std::array<float, 256> f8_e4m3_table() {
  std::array<float, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    const int exponent = static_cast<int>(bits >> 3 & 15), mantissa = static_cast<int>(bits & 7);
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int i = 0; i < (exponent == 0 ? 9 : 10 - exponent); ++i) value /= 2;  // 2^-9 is the unit of subnormals
    for (int i = 10; i < exponent; ++i) value *= 2;
    if ((bits & 0x7f) == 0x7f) value = std::bit_cast<float>(0x7fc00000u);
    table[bits] = (bits & 0x80) != 0 ? -value : value;
  }
  return table;
}
constexpr std::array<float, 256> kF8E4M3 = f8_e4m3_table();

// A float that keeps, in its last bit, whether anything was cut off: rounding it once more gives what rounding the
// double would have given (Boldo and Melquiond, "When double rounding is odd", 2005).
float round_to_odd(double value) {
  float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || std::isnan(value)) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

struct F32 {
  using Bits = float;
  static float load(Bits bits) { return bits; }
  static Bits store(float value) { return value; }
};
struct Bf16 {
  using Bits = uint16_t;
  static float load(Bits bits) { return f32_from_bf16(bits); }
  static Bits store(float value) { return bf16_from_f32(value); }
};
struct F16 {
  using Bits = uint16_t;
  static float load(Bits bits) { return f32_from_f16(bits); }
  static Bits store(float value) { return f16_from_f32(value); }
};
struct F64 {
  using Bits = double;
  static Bits store(float value) { return value; }
};
struct F8E4M3 {
  using Bits = uint8_t;
  static float load(Bits bits) { return kF8E4M3[bits]; }
};

template <typename From, typename To>
void convert_all(const void* source, void* target, int64_t n) {
  const auto* from = static_cast<const unsigned char*>(source);
  auto* to = static_cast<unsigned char*>(target);
  for (int64_t i = 0; i < n; ++i) {
    typename From::Bits in;
    std::memcpy(&in, from + i * sizeof in, sizeof in);
    typename To::Bits out;
    if constexpr (std::is_same_v<From, F64> && std::is_same_v<To, F32>) {
      out = static_cast<float>(in);
    } else if constexpr (std::is_same_v<From, F64>) {
      out = To::store(round_to_odd(in));
    } else {
      out = To::store(From::load(in));
    }
    std::memcpy(to + i * sizeof out, &out, sizeof out);
  }
}

template <typename From>
void convert_from(const void* source, DType to, void* target, int64_t n) {
  switch (to) {
    case DType::kF32:
      return convert_all<From, F32>(source, target, n);
    case DType::kBf16:
      return convert_all<From, Bf16>(source, target, n);
    case DType::kF16:
      return convert_all<From, F16>(source, target, n);
    case DType::kF64:
      if constexpr (!std::is_same_v<From, F64>) return convert_all<From, F64>(source, target, n);
      break;
    default:
      break;
  }
  fail(Exit::kBug, "no conversion to {}", dtype_name(to));
}

}  // namespace

uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t cut = bits >> 16;
  const uint32_t nan = (cut & 0x7fu) == 0 ? cut | 0x40u : cut;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

float f32_from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN
    const uint32_t payload = magnitude >> 13 & 0x3ffu;
    return static_cast<uint16_t>(sign | 0x7c00u | (payload == 0 ? 0x200u : payload));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on: infinity
  if (magnitude < 0x38800000u) {                                               // below 2^-14: a multiple of 2^-24
    // Adding 0.5 leaves the value's multiple of 2^-24 in the last bits of the sum, rounded by the addition itself.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float f32_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {  // subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

float f32_from_f8_e4m3(uint8_t bits) { return kF8E4M3[bits]; }

bool is_convertible(DType from, DType to) {
  return from == to || ((is_float(from) || from == DType::kF8E4M3) && is_float(to));
}

void convert(DType from, const void* source, DType to, void* target, int64_t n) {
  if (from == to) {
    if (n > 0) std::memcpy(target, source, static_cast<size_t>(n * dtype_bytes(from)));
    return;
  }
  switch (from) {
    case DType::kF32:
      return convert_from<F32>(source, to, target, n);
    case DType::kBf16:
      return convert_from<Bf16>(source, to, target, n);
    case DType::kF16:
      return convert_from<F16>(source, to, target, n);
    case DType::kF64:
      return convert_from<F64>(source, to, target, n);
    case DType::kF8E4M3:
      return convert_from<F8E4M3>(source, to, target, n);
    default:
      fail(Exit::kBug, "no conversion from {}", dtype_name(from));
  }
}

}  // namespace lf
