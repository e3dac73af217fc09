#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <pcre2.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::text {
namespace {

// Published patterns need a few steps per letter; nested quantifiers that explode reach the limit in well under a
// second.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kJitStackStart = 32 * 1024, kJitStackMost = 8 * 1024 * 1024;
constexpr size_t kLongestExpression = 64 * 1024;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Oniguruma's \s and \w as classes of PCRE2, whose own differ: its \s takes U+180E too, which lost that property in
// Unicode 6.3, and its \w knows no marks.
constexpr std::string_view kBlank = R"(\p{Z}\x09-\x0d\x85)";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

// The expression as PCRE2 must read it to match what Oniguruma matches. Oniguruma: \h is a hexadecimal digit, &&
// intersects classes, (?m) lets the dot match line ends; PCRE2 reads blanks, two letters, and anchors at lines.
// Those are refused, and so are \b (it stands on \w) and negations inside a class.
std::string translate(std::string_view expression) {
  const auto refuse = [&](std::string_view construct) {
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       fmt::format("pattern {:?}: {} means one thing to Oniguruma and another to PCRE2; "
                                   "rewrite the pattern without it",
                                   std::string(expression.substr(0, 80)), construct));
  };
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const std::string_view rest = expression.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      ++i;
      const char kind = rest[1];
      if (std::string_view("hHbB").find(kind) != std::string_view::npos) refuse(rest.substr(0, 2));
      const std::string_view members = kind == 's' || kind == 'S' ? kBlank : kWord;
      if (kind == 's' || kind == 'w') {
        out += in_class ? std::string(members) : fmt::format("[{}]", members);
      } else if (kind == 'S' || kind == 'W') {
        if (in_class) refuse(rest.substr(0, 2));
        out += fmt::format("[^{}]", members);
      } else {
        out += rest.substr(0, 2);
      }
      continue;
    }
    if (rest[0] == '[') in_class = true;
    if (rest[0] == ']') in_class = false;
    if (in_class && rest.starts_with("&&")) refuse("&& in a class");
    if (!in_class && rest.starts_with("(?")) {
      const size_t end = rest.find_first_of(":)", 2);
      const std::string_view flags = rest.substr(2, end == rest.npos ? 0 : end - 2);
      if (flags.find('m') != flags.npos && flags.find_first_not_of("imsx-") == flags.npos) refuse("the flag (?m)");
    }
    out += rest[0];
  }
  return out;
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Code() { pcre2_code_free(code); }
};

struct Pattern::Scratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr);
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Pattern::Pattern(std::string_view expression) : code_(std::make_unique<Code>()) {
  if (expression.size() > kLongestExpression)
    throw sdk::Failure(
        LF_E_DATA, fmt::format("a pattern of {} bytes: expected at most {}", expression.size(), kLongestExpression));
  const std::string translated = translate(expression);
  int error = 0;
  size_t offset = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_->code == nullptr)
    throw sdk::Failure(LF_E_DATA, fmt::format("pattern {:?}: {} at byte {}", std::string(expression.substr(0, 80)),
                                              message_of(error), offset));
  code_->jit = pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE) == 0;  // without it the interpreter gives the same
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Scratch::Scratch() : state_(std::make_unique<State>()) {
  if (state_->data == nullptr || state_->context == nullptr || state_->stack == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimitKib);
  pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
}
Pattern::Scratch::~Scratch() = default;

std::optional<Pattern::Match> Pattern::find(std::string_view text, size_t from, Scratch& scratch) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  Scratch::State& state = *scratch.state_;
  while (from < text.size()) {
    const int found =
        code_->jit
            ? pcre2_jit_match(code_->code, subject, text.size(), from, 0, state.data, state.context)
            : pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.data, state.context);
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0)
      throw sdk::Failure(LF_E_DATA, fmt::format("splitting {} bytes of text at byte {}: {}; the tokenizer's pattern is "
                                                "not fit for this text",
                                                text.size(), from, message_of(found)));
    const size_t* at = pcre2_get_ovector_pointer(state.data);
    if (at[1] > at[0] && at[0] >= from) return Match{at[0], at[1]};
    from = std::max(from, at[1]) + 1;  // empty: go on after the next letter
    while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) ++from;
  }
  return std::nullopt;
}

std::string quote(std::string_view literal) {
  std::string out;
  for (const char letter : literal) {
    if (static_cast<uint8_t>(letter) < 0x80 && !std::isalnum(static_cast<uint8_t>(letter)) && letter != '\0')
      out += '\\';
    out += letter;
  }
  return out;
}

}  // namespace lf::text
