#include "arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace lf::sim {
namespace {

struct Bf16 {
  using Wide = float;
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static Bf16 from(float value) {
    const uint32_t wide = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return {static_cast<uint16_t>((wide >> 16) | 0x40)};
    return {static_cast<uint16_t>((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16)};
  }
};

struct F16 {
  using Wide = float;
  uint16_t bits;
  operator float() const {
    const float sign = bits & 0x8000 ? -1.0F : 1.0F;
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
    return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -24)
                         : sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  static F16 from(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7E00)};
    const float size = std::fabs(value);
    if (size >= 65520) return {static_cast<uint16_t>(sign | 0x7C00)};
    const int exponent = size < 0x1p-14F ? -14 : std::ilogb(size);
    // lrint rounds to nearest even; a carry into the exponent is the right next number
    const long fraction = std::lrint(std::ldexp(size, 10 - exponent));
    const long biased = size < 0x1p-14F ? 0 : exponent + 14;
    return {static_cast<uint16_t>(sign | ((biased << 10) + fraction))};
  }
};

template <typename T>
struct Plain {
  using Wide = T;
  T value;
  operator T() const { return value; }
  static Plain from(T value) { return {value}; }
};

template <typename Wide>
Wide combine(Reduction reduction, Wide a, Wide b) {
  switch (reduction) {
    case Reduction::kAdd:
      return a + b;
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

template <typename Stored>
void reduce_as(Reduction reduction, const std::byte* parts, int n_parts, uint64_t n, std::byte* out) {
  for (uint64_t i = 0; i < n; ++i) {
    Stored element;
    std::memcpy(&element, parts + i * sizeof element, sizeof element);
    typename Stored::Wide total = element;
    for (int part = 1; part < n_parts; ++part) {
      std::memcpy(&element, parts + (part * n + i) * sizeof element, sizeof element);
      total = combine<typename Stored::Wide>(reduction, total, element);
    }
    element = Stored::from(total);
    std::memcpy(out + i * sizeof element, &element, sizeof element);
  }
}

}  // namespace

uint64_t element_bytes(Element element) {
  switch (element) {
    case Element::kU8:
      return 1;
    case Element::kF16:
    case Element::kBf16:
      return 2;
    case Element::kI32:
    case Element::kF32:
      return 4;
    default:
      return 8;
  }
}

void reduce(Element element, Reduction reduction, const std::byte* parts, int n_parts, uint64_t n, std::byte* out) {
  switch (element) {
    case Element::kU8:
      return reduce_as<Plain<uint8_t>>(reduction, parts, n_parts, n, out);
    case Element::kI32:
      return reduce_as<Plain<int32_t>>(reduction, parts, n_parts, n, out);
    case Element::kI64:
      return reduce_as<Plain<int64_t>>(reduction, parts, n_parts, n, out);
    case Element::kF32:
      return reduce_as<Plain<float>>(reduction, parts, n_parts, n, out);
    case Element::kF64:
      return reduce_as<Plain<double>>(reduction, parts, n_parts, n, out);
    case Element::kF16:
      return reduce_as<F16>(reduction, parts, n_parts, n, out);
    case Element::kBf16:
      return reduce_as<Bf16>(reduction, parts, n_parts, n, out);
  }
}

}  // namespace lf::sim
