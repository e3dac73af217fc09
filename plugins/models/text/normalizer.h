// What is done to text before it is split: Unicode normal forms, and one text put for another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lf::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

class Normalizer {
 public:
  void add(NormalForm form) { steps_.push_back({form, {}, {}}); }
  // Every `from`, which is not empty, becomes `to`.
  void replace(std::string from, std::string to) { steps_.push_back({std::nullopt, std::move(from), std::move(to)}); }
  bool is_identity() const { return steps_.empty(); }

  // `text` itself where it is unchanged, otherwise a view of `storage`, which is overwritten. `text` is valid UTF-8.
  // Unicode version: utf8proc's. [any thread]
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    std::optional<NormalForm> form;  // or a replacement
    std::string from, to;
  };
  std::vector<Step> steps_;
};

// Every `from`, which is not empty, becomes `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// The byte where `text` stops being valid UTF-8, or npos.
size_t invalid_utf8_at(std::string_view text);

}  // namespace lf::text
