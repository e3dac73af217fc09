// Sums, products, extremes over the element types; in rank order, so that all ranks and a reference get the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lf::sim {

enum class Element { kU8, kI32, kI64, kF16, kF32, kF64, kBf16 };
enum class Reduction { kAdd, kProduct, kMin, kMax };

uint64_t element_bytes(Element element);

// `parts`: `n_parts` arrays of `n` elements, one after the other. 16-bit floats are computed in fp32 and rounded to
// nearest even once, at the end.
void reduce(Element element, Reduction reduction, const std::byte* parts, int n_parts, uint64_t n, std::byte* out);

}  // namespace lf::sim
