// What `--set table.key=value` is made of.
#pragma once

#include <optional>
#include <string_view>

namespace lf {

// Both without the blanks around them, and parts of the text that was split.
struct SetText {
  std::string_view name;
  std::optional<std::string_view> value;  // none: there is no '='
};

inline SetText split_set(std::string_view text) {
  const auto trimmed = [](std::string_view part) {
    constexpr std::string_view kBlank = " \t";
    const size_t first = part.find_first_not_of(kBlank);
    return first == part.npos ? std::string_view{} : part.substr(first, part.find_last_not_of(kBlank) - first + 1);
  };
  const size_t equals = text.find('=');
  if (equals == text.npos) return {trimmed(text), std::nullopt};
  return {trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1))};
}

}  // namespace lf
