// Why one file is not taken as a plugin. Caught where a file is judged or probed; its text becomes Candidate::refusal.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lf {

class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal(fmt::format(text, std::forward<Args>(args)...));
}

// Text from a file or a plugin, fit for one line of a message: control characters become spaces, long text is cut.
std::string one_line(std::string_view text);

}  // namespace lf
