#include "weights/names.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

namespace lf {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Group {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // of each number in the name
  size_t count = 0;
  size_t order = 0;
};

}  // namespace

std::vector<std::string> summarize_names(const std::vector<std::string>& names) {
  std::map<std::string, Group> groups;
  for (const std::string& name : names) {
    std::string pattern;
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < name.size();) {
      // Only numbers that are a whole component count ("layers.3", not "conv1d"), and ones that fit.
      size_t last = i;
      while (last < name.size() && is_digit(name[last])) ++last;
      const bool whole =
          last > i && last - i <= 18 && (i == 0 || name[i - 1] == '.') && (last == name.size() || name[last] == '.');
      if (whole) {
        numbers.push_back(std::stoull(name.substr(i, last - i)));
        pattern += '\0';
        i = last;
      } else {
        pattern += name[i++];
      }
    }
    Group& group = groups.try_emplace(pattern, Group{{}, 0, groups.size()}).first->second;
    group.ranges.resize(numbers.size(), {UINT64_MAX, 0});
    for (size_t k = 0; k < numbers.size(); ++k) {
      group.ranges[k].first = std::min(group.ranges[k].first, numbers[k]);
      group.ranges[k].second = std::max(group.ranges[k].second, numbers[k]);
    }
    ++group.count;
  }
  std::vector<std::string> lines(groups.size());
  for (const auto& [pattern, group] : groups) {
    std::string& line = lines[group.order];
    size_t k = 0;
    for (const char c : pattern) {
      if (c != '\0') {
        line += c;
        continue;
      }
      const auto [low, high] = group.ranges[k++];
      line += low == high ? std::to_string(low) : fmt::format("{{{}..{}}}", low, high);
    }
    if (group.count > 1) line += fmt::format(" ({})", group.count);
  }
  return lines;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t fewest = std::max<size_t>(3, name.size() / 4) + 1;
  std::vector<size_t> row, next;
  for (const std::string& candidate : candidates) {
    if (std::max(candidate.size(), name.size()) - std::min(candidate.size(), name.size()) >= fewest) continue;
    row.resize(name.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < candidate.size(); ++i) {
      next.assign(1, i + 1);
      for (size_t j = 0; j < name.size(); ++j)
        next.push_back(std::min({next[j] + 1, row[j + 1] + 1, row[j] + (candidate[i] == name[j] ? 0u : 1u)}));
      row.swap(next);
    }
    if (row.back() < fewest) {
      fewest = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace lf
