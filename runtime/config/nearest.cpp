#include "config/nearest.h"

#include <algorithm>
#include <limits>

namespace lf {
namespace {

constexpr size_t kLongest = 64;  // no known name is longer; a hostile one costs nothing

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::optional<std::string_view> nearest(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const std::string_view candidate : known) {
    const std::string_view typed = last_part(name);
    const size_t by_last_part = edit_distance(typed, last_part(candidate)) + 1;  // another table is one more mistake
    const size_t distance = std::min(edit_distance(name, candidate), by_last_part);
    const size_t allowed = 1 + typed.size() / 4;
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace lf
