// Ascending row numbers in about a byte each: how many rows are left out before each, 255 at a time where there are
// more.
#pragma once

#include <cstdint>

namespace lf::nn::cpu {

// Bytes that hold any `count` of `rows` rows.
int64_t gap_bytes(int64_t count, int64_t rows);

// numbers [count], ascending from 0 on -> at most gap_bytes; and back.
void write_gaps(const int32_t* numbers, int64_t count, uint8_t* to);
void read_gaps(const uint8_t* from, int64_t count, int32_t* numbers);

}  // namespace lf::nn::cpu
