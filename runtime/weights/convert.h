// Values from one element type to another, rounded to the nearest, ties to even, as IEEE 754 asks and PyTorch does.
#pragma once

#include <cstdint>

#include "weights/dtype.h"

namespace lf {

uint16_t bf16_from_f32(float value);  // NaN keeps its sign and upper payload
float f32_from_bf16(uint16_t bits);
uint16_t f16_from_f32(float value);
float f32_from_f16(uint16_t bits);
float f32_from_f8_e4m3(uint8_t bits);  // OCP FP8 (arXiv:2209.05433): no infinities, NaN is S.1111.111

// True between any two of F64, F32, BF16, F16, from F8_E4M3 to any of them, and from a type to itself.
bool is_convertible(DType from, DType to);

// `n` elements; source and target do not overlap and need no alignment. Each result is rounded once.
void convert(DType from, const void* source, DType to, void* target, int64_t n);

}  // namespace lf
