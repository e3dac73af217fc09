// Element types as safetensors files name them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lf/plugin_api/abi.h"

namespace lf {

// Values of LF_DTYPE_ where the ABI has the type; from 100 on, types that files may hold and nothing here computes
// with.
enum class DType : int32_t {
  kF32 = LF_DTYPE_F32,
  kBf16 = LF_DTYPE_BF16,
  kF16 = LF_DTYPE_F16,
  kF64 = LF_DTYPE_F64,
  kI64 = LF_DTYPE_I64,
  kI32 = LF_DTYPE_I32,
  kU8 = LF_DTYPE_U8,
  kBool = LF_DTYPE_BOOL,
  kF8E4M3 = LF_DTYPE_F8_E4M3,
  kI16 = LF_DTYPE_I16,
  kI8 = LF_DTYPE_I8,
  kU16 = 100,
  kU32,
  kU64,
  kC64,
  kF8E5M2,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4,
};

std::string_view dtype_name(DType dtype);  // "BF16"
std::optional<DType> dtype_named(std::string_view name);
int dtype_bits(DType dtype);
int64_t dtype_bytes(DType dtype);  // of one element; throws lf::Error(kBug) below 8 bits
int dtype_rank(DType dtype);       // the reference writer lays tensors out by falling rank, then by name
bool is_float(DType dtype);        // one that values are converted from or to: F64 F32 BF16 F16

// Bytes of a tensor; nothing where that overflows, or does not fill whole bytes, or a length is negative.
std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace lf
