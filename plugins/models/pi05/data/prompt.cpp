#include "pi05/data/prompt.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace lf::robot {
namespace {

constexpr int kBins = 256;
constexpr std::string_view kBlanks = " \t\n\r\f\v";

std::string cleaned(std::string_view task) {
  const size_t first = task.find_first_not_of(kBlanks);
  if (first == task.npos) return "";
  std::string out(task.substr(first, task.find_last_not_of(kBlanks) - first + 1));
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
