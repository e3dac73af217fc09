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

}  // namespace lf
