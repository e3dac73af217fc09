// Numbers and texts in the byte strings that ranks exchange. All ranks run the same build on the same kind of machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace lf {

class WireWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    bytes_ += text;
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a WireWriter wrote, in the same order; throws kBug where the bytes end early.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(next(get<uint64_t>())); }
  template <typename T>
  std::vector<T> values() {
    const auto count = get<uint64_t>();
    const std::string_view raw = next(count * sizeof(T));
    std::vector<T> out(count);
    if (count > 0) std::memcpy(out.data(), raw.data(), raw.size());
    return out;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view next(uint64_t count) {
    if (count > bytes_.size()) fail(Exit::kBug, "loader: a message between ranks ends early; do all run one build?");
    const std::string_view out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return out;
  }

  std::string_view bytes_;
};

}  // namespace lf
