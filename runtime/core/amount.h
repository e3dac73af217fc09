// Amounts as people read them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace lf {

// "1 step", "1879 steps"; `things` where the plural is not made by an s.
template <typename Number>
std::string counted(Number n, std::string_view thing, std::string_view things = "") {
  if (n == 1) return fmt::format("{} {}", n, thing);
  return things.empty() ? fmt::format("{} {}s", n, thing) : fmt::format("{} {}", n, things);
}

// Two or three digits and a unit; whole below 1000.
inline std::string scaled(double value, std::initializer_list<const char*> units) {
  const char* unit = "";
  for (const char* larger : units) {
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  return value < 99.95 && *unit != '\0' ? fmt::format("{:.1f}{}", value, unit) : fmt::format("{:.0f}{}", value, unit);
}

// Powers of 1000: "912 bytes", "12.0 kB", "327 MB".
inline std::string bytes_text(uint64_t bytes) {
  if (bytes < 1000) return counted(bytes, "byte");
  return scaled(static_cast<double>(bytes), {" kB", " MB", " GB", " TB", " PB", " EB"});
}

// "912", "27.3M", "8.3B".
inline std::string count_text(int64_t count) { return scaled(static_cast<double>(count), {"K", "M", "B", "T"}); }

}  // namespace lf
