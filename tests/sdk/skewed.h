// Tables of another version of the headers. Where this version must not look, there are pointers that end the process.
#pragma once

#include <cstdlib>
#include <cstring>

#include "lf/plugin_api/abi.h"

namespace lf::test {

[[noreturn]] inline void nobody_calls_this() { std::abort(); }

template <typename T>
struct Skewed {
  T known;
  void (*unknown[6])();
};

template <typename T>
Skewed<T> newer(const T& known) {
  Skewed<T> made{known, {}};
  for (auto& function : made.unknown) function = nobody_calls_this;
  made.known.h.size = sizeof made;
  return made;
}

template <size_t kSize, typename T>
Skewed<T> older(const T& known) {
  Skewed<T> made{};
  void (*const trap)() = nobody_calls_this;
  for (size_t at = 0; at < sizeof made; at += sizeof trap)
    std::memcpy(reinterpret_cast<char*>(&made) + at, &trap, sizeof trap);
  std::memcpy(&made.known, &known, kSize);
  made.known.h.size = kSize;
  return made;
}

}  // namespace lf::test
