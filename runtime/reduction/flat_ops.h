// Passes over flat buffers, shared among threads. Internal to reduction.
#pragma once

#include <cstdint>

namespace lf {

void add_into(float* sum, const float* value, int64_t n, int threads);  // sum += value
void move_out(float* to, float* from, int64_t n, int threads);          // to = from; from = 0
void add_and_clear(float* sum, float* value, int64_t n, int threads);   // sum += value; value = 0
void clear(float* values, int64_t n, int threads);

}  // namespace lf
