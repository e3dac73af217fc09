// What is done to text before it is split: Unicode normal forms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lf::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

class Normalizer {
 public:
  void add(NormalForm form) { forms_.push_back(form); }
  bool is_identity() const { return forms_.empty(); }

  // `text` itself where it is unchanged, otherwise a view of `storage`, which is overwritten. `text` is valid UTF-8.
  // Unicode version: utf8proc's. [any thread]
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  std::vector<NormalForm> forms_;
};

// The byte where `text` stops being valid UTF-8, or npos.
size_t invalid_utf8_at(std::string_view text);

}  // namespace lf::text
