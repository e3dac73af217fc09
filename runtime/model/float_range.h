// Some f32 values of the training state, wherever they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

namespace lf {

// Borrowed: as long-lived as what holds the values.
struct FloatRange {
  int64_t elements = 0;
  float* host = nullptr;  // in the host's memory; null: elsewhere, and then only by the copies below
  // `first` counts from the range's begin. Done when they return. Of the training thread.
  std::function<void(int64_t first, std::span<float> out)> read = {};
  std::function<void(int64_t first, std::span<const float> in)> write = {};
};

inline FloatRange host_range(float* begin, int64_t elements) {
  return {.elements = elements,
          .host = begin,
          .read =
              [begin](int64_t first, std::span<float> out) {
                if (!out.empty()) std::memcpy(out.data(), begin + first, out.size_bytes());
              },
          .write =
              [begin](int64_t first, std::span<const float> in) {
                if (!in.empty()) std::memcpy(begin + first, in.data(), in.size_bytes());
              }};
}

}  // namespace lf
