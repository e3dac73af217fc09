#include "metrics/text.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

namespace lf {

std::string short_count(double value) {
  if (!std::isfinite(value)) return "?";
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return value < 9.95 && unit > 0 ? fmt::format("{:.1f}{}", value, kUnits[unit])
                                  : fmt::format("{:.0f}{}", value, kUnits[unit]);
}

std::string short_bytes(int64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} kB", bytes / 1000);
  if (bytes < 1'000'000'000) return fmt::format("{} MB", bytes / 1'000'000);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<int64_t>(std::max(0.0, std::round(seconds)));
  if (s >= 86'400) return fmt::format("{}d {:02}:{:02}", s / 86'400, s % 86'400 / 3600, s % 3600 / 60);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s % 3600 / 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string utc_time(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace lf
