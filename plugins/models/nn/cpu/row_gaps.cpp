#include "nn/cpu/row_gaps.h"

namespace lf::nn::cpu {
namespace {

constexpr int32_t kMore = 255;  // a byte that says: so many, and the next byte's

}  // namespace

int64_t gap_bytes(int64_t count, int64_t rows) { return count + rows / kMore; }

void write_gaps(const int32_t* numbers, int64_t count, uint8_t* to) {
  int32_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t gap = numbers[i] - next;
    for (; gap >= kMore; gap -= kMore) *to++ = kMore;
    *to++ = static_cast<uint8_t>(gap);
    next = numbers[i] + 1;
  }
}

void read_gaps(const uint8_t* from, int64_t count, int32_t* numbers) {
  int32_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (; *from == kMore; ++from) next += kMore;
    next += *from++;
    numbers[i] = next++;
  }
}

}  // namespace lf::nn::cpu
