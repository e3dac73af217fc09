#include "pi05/data/prompt.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace lf::robot {
namespace {

constexpr int kBins = 256;

// What Python's str.strip takes away (Unicode's white space, and U+001C to U+001F).
constexpr std::string_view kBlanks[] = {" ",
                                        "\t",
                                        "\n",
                                        "\v",
                                        "\f",
                                        "\r",
                                        "\x1c",
                                        "\x1d",
                                        "\x1e",
                                        "\x1f",
                                        "\xC2\x85",
                                        "\xC2\xA0",
                                        "\xE1\x9A\x80",
                                        "\xE2\x80\x80",
                                        "\xE2\x80\x81",
                                        "\xE2\x80\x82",
                                        "\xE2\x80\x83",
                                        "\xE2\x80\x84",
                                        "\xE2\x80\x85",
                                        "\xE2\x80\x86",
                                        "\xE2\x80\x87",
                                        "\xE2\x80\x88",
                                        "\xE2\x80\x89",
                                        "\xE2\x80\x8A",
                                        "\xE2\x80\xA8",
                                        "\xE2\x80\xA9",
                                        "\xE2\x80\xAF",
                                        "\xE2\x81\x9F",
                                        "\xE3\x80\x80"};

std::string_view stripped(std::string_view text) {
  const auto blank_at = [&](auto fits) {
    const auto found = std::find_if(std::begin(kBlanks), std::end(kBlanks), fits);
    return found == std::end(kBlanks) ? size_t{0} : found->size();
  };
  while (const size_t n = blank_at([&](std::string_view blank) { return text.starts_with(blank); }))
    text.remove_prefix(n);
  while (const size_t n = blank_at([&](std::string_view blank) { return text.ends_with(blank); }))
    text.remove_suffix(n);
  return text;
}

std::string cleaned(std::string_view task) {
  std::string out(stripped(task));
  std::replace(out.begin(), out.end(), '_', ' ');
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

}  // namespace

int64_t state_bin(float value) {
  const double from_middle = std::floor(static_cast<double>(value) * (kBins / 2));  // exact, which value + 1 is not
  return static_cast<int64_t>(std::clamp(from_middle + kBins / 2, -1.0, kBins - 1.0));
}

std::string prompt_text(std::string_view task, std::span<const float> normalized_state) {
  std::string state;
  for (const float value : normalized_state) state += fmt::format("{}{}", state.empty() ? "" : " ", state_bin(value));
  return fmt::format("Task: {}, State: {};\nAction: ", cleaned(task), state);
}

std::string prompt_text(std::string_view task) { return cleaned(task) + "\n"; }

std::vector<text::TokenId> prompt_tokens(const text::Tokenizer& tokenizer, std::string_view text) {
  std::vector<text::TokenId> ids = tokenizer.encode_plain(text);
  if (const auto bos = tokenizer.added_token("<bos>")) ids.insert(ids.begin(), *bos);
  return ids;
}

}  // namespace lf::robot
