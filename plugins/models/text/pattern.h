// A regular expression over UTF-8, by PCRE2 with its just-in-time compiler and a limit on the work of one match.
//
// tokenizer.json is written for Oniguruma. The two agree on what the published files use; constructs that both accept
// but read differently are refused by name (see pattern.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lf::text {

class Pattern {
 public:
  // Throws sdk::Failure (LF_E_DATA) with the place of a syntax error, or LF_E_UNSUPPORTED by the construct's name.
  explicit Pattern(std::string_view expression);
  Pattern(Pattern&&) noexcept;
  ~Pattern();

  // What a match needs while it runs; for one thread at a time.
  class Scratch {
   public:
    Scratch();
    Scratch(const Scratch&) = delete;
    ~Scratch();

   private:
    friend class Pattern;
    struct State;
    std::unique_ptr<State> state_;
  };

  struct Match {
    size_t begin = 0, end = 0;
  };
  // The first match at or after `from`, never empty. `text` is valid UTF-8 (not checked) and all that lookarounds see.
  // Throws LF_E_DATA where a match needs more steps than the limit. [any thread, own scratch]
  std::optional<Match> find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// An expression that matches the text itself, whatever its letters mean.
std::string quote(std::string_view literal);

}  // namespace lf::text
