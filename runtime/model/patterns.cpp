#include "model/patterns.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>
#include <fnmatch.h>

#include "weights/names.h"

namespace lf {
namespace {

constexpr size_t kMostShown = 6;

std::vector<std::string> words_of(const std::string& text, const char* separators) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool is_number(const std::string& word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string near_names(const std::string& pattern, const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names)
    for (std::string& word : words_of(name, "."))
      if (!is_number(word)) known.insert(std::move(word));
  std::vector<std::string> literal = words_of(pattern, ".*?[]");
  std::erase_if(literal, [](const std::string& word) { return word == "weight" || is_number(word); });
  // What no name has is what was mistyped; the longest of it tells most.
  std::stable_sort(literal.begin(), literal.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(known.contains(a), b.size()) < std::pair(known.contains(b), a.size());
  });
  std::vector<std::string> near;
  if (!literal.empty())
    if (const std::string word = nearest_name(literal.front(), {known.begin(), known.end()}); !word.empty())
      for (const std::string& name : names) {
        const std::vector<std::string> words = words_of(name, ".");
        if (std::find(words.begin(), words.end(), word) != words.end()) near.push_back(name);
      }
  std::vector<std::string> lines = summarize_names(near.empty() ? names : near);
  const size_t all = lines.size();
  if (lines.size() > kMostShown) lines.resize(kMostShown);
  return fmt::format("{}{}", fmt::join(lines, ", "), all > kMostShown ? ", ..." : "");
}

}  // namespace lf
