#include <fmt/format.h>

#include "config/config.h"
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
  std::error_code error;
  const std::filesystem::path near = std::filesystem::proximate(output, error);
  const bool inside = !error && !near.empty() && *near.begin() != "..";
  std::string command = "lfrun";
  for (const std::string& word : words) command += " " + quoted(word);
  return command + " --set " + quoted("job.output=" + (inside ? near : output).string());
}

}  // namespace lf
