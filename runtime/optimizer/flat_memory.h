// Zeroed floats in pages of their own: nothing is touched, and so nothing is resident, before it is used.
#pragma once

#include <cstdint>
#include <span>

namespace lf {

class FlatMemory {
 public:
  FlatMemory() = default;
  explicit FlatMemory(int64_t elements);  // throws lf::Error(kUnavailable) when the host has no memory for it
  ~FlatMemory();
  FlatMemory(FlatMemory&& other) noexcept;
  FlatMemory& operator=(FlatMemory&& other) noexcept;

  float* data() const { return data_; }
  std::span<float> values() const { return {data_, static_cast<size_t>(elements_)}; }
  uint64_t bytes() const { return static_cast<uint64_t>(elements_) * sizeof(float); }

 private:
  float* data_ = nullptr;
  int64_t elements_ = 0;
};

}  // namespace lf
