#include "weights/dtype.h"

#include <array>

#include "core/error.h"

namespace lf {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
};

// In the order of the reference library's enumeration (safetensors 0.8, tensor.rs, enum Dtype), which is what it sorts
// by.
constexpr std::array<Row, 20> kTable = {{
    {DType::kBool, "BOOL", 8},      {DType::kF4, "F4", 4},          {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6}, {DType::kU8, "U8", 8},          {DType::kI8, "I8", 8},
    {DType::kF8E5M2, "F8_E5M2", 8}, {DType::kF8E4M3, "F8_E4M3", 8}, {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kI16, "I16", 16},       {DType::kU16, "U16", 16},       {DType::kF16, "F16", 16},
    {DType::kBf16, "BF16", 16},     {DType::kI32, "I32", 32},       {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},       {DType::kC64, "C64", 64},       {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},       {DType::kU64, "U64", 64},
}};

size_t row_of(DType dtype) {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].dtype == dtype) return i;
  }
  fail(Exit::kBug, "element type {}: unknown", static_cast<int>(dtype));
}

}  // namespace

std::string_view dtype_name(DType dtype) { return kTable[row_of(dtype)].name; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

int dtype_bits(DType dtype) { return kTable[row_of(dtype)].bits; }

int64_t dtype_bytes(DType dtype) {
  const int bits = dtype_bits(dtype);
  if (bits < 8) fail(Exit::kBug, "{}: has no whole bytes for one element", dtype_name(dtype));
  return bits / 8;
}

int dtype_rank(DType dtype) { return static_cast<int>(row_of(dtype)); }

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF64;
}

std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  uint64_t elements = 1, bits = 0;
  for (const int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(length), &elements)) return std::nullopt;
  }
  if (__builtin_mul_overflow(elements, static_cast<uint64_t>(dtype_bits(dtype)), &bits) || bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

}  // namespace lf
