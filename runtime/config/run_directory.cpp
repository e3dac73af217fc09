#include <string_view>

#include <fmt/format.h>

#include "config/config.h"
#include "config/set_text.h"
#include "core/error.h"

namespace lf {

std::filesystem::path fresh_output(const std::filesystem::path& output) {
  constexpr int kMost = 10'000;
  std::error_code error;
  if (!std::filesystem::exists(output, error)) return output;
  for (int n = 2; n <= kMost; ++n) {
    std::filesystem::path next = output;
    next += fmt::format("-{}", n);
    if (!std::filesystem::exists(next, error)) return next;
  }
  fail(Exit::kCannotCreate, "{}: and {} numbered directories after it exist already; remove some", output.string(),
       kMost);
}

std::string go_on_command(const std::vector<std::string>& words, const std::filesystem::path& output) {
  const auto quoted = [](const std::string& word) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  const auto says_output = [](std::string_view set) { return split_set(set).name == "job.output"; };
  std::string command = "lfrun";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--set=") && says_output(std::string_view(words[i]).substr(6))) continue;
    if (words[i] == "--set" && i + 1 < words.size() && says_output(words[i + 1])) {
      ++i;
      continue;
    }
    command += " " + quoted(words[i]);
  }
  return command + " --set " + quoted("job.output=" + output.string());
}

}  // namespace lf
