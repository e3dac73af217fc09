// How text is cut into the words inside which byte pairs merge: a chain of stages, each cutting the pieces of the one
// before. A piece is a text of its own: lookarounds of a stage do not see beyond it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace lf::text {

// What becomes of the text that a pattern matched.
enum class Cut { kRemoved, kIsolated, kContiguous, kWithPrevious, kWithNext };

class PreTokenizer {
 public:
  void add_split(Pattern pattern, Cut cut, bool invert);
  void add_prefix_space();  // a blank before each piece that does not start with one

  // Calls `word` with each piece, in order, never empty; views live for that call. `text` is valid UTF-8.
  // [any thread, own scratch]
  void split(std::string_view text, Pattern::Scratch& scratch, const std::function<void(std::string_view)>& word) const;

 private:
  struct Stage {
    std::vector<Pattern> pattern;  // one, or none for the prefix space
    Cut cut = Cut::kIsolated;
    bool invert = false;
  };
  void run(size_t stage, std::string_view text, Pattern::Scratch& scratch,
           const std::function<void(std::string_view)>& word) const;

  std::vector<Stage> stages_;
};

}  // namespace lf::text
