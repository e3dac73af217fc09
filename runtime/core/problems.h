// Mistakes collected in one pass and told together, so that people mend them in one go.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace lf {

// In the order in which they are told. One thread at a time.
class Problems {
 public:
  // `text`: a mistake, or several, each on lines of its own; a line that begins with a space goes on with the one
  // before. What is known already is not told twice.
  void add(Exit exit, const std::string& text) {
    for (size_t start = 0; start <= text.size();) {
      size_t end = text.find('\n', start);
      while (end != std::string::npos && text.substr(end + 1, 1) == " ") end = text.find('\n', end + 1);
      end = std::min(end, text.size());
      add_one(exit, text.substr(start, end - start));
      start = end + 1;
    }
  }

  // So many more, which nobody would read.
  void add_untold(Exit exit, size_t n) {
    add(exit, fmt::format("and {} more", n));
    untold_ += n - 1;  // the line itself counts as one
  }
  // Calls body(). False where it threw lf::Error, which is then among the problems.
  template <typename Body>
  bool attempt(Body&& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      add(error.exit(), error.what());
      return false;
    }
  }

  bool empty() const { return lines_.empty(); }
  size_t size() const { return lines_.size(); }

  // For a check: the same, closed by "not valid: N mistakes".
  void refuse_job_if_any() const {
    if (lines_.empty()) return;
    const size_t n = size() + untold_;
    Problems closed = *this;
    closed.lines_.push_back(fmt::format("not valid: {} mistake{}", n, n == 1 ? "" : "s"));
    closed.refuse_if_any();
  }

  // Throws all of them as one error, with the exit code of the first.
  void refuse_if_any() const {
    if (lines_.empty()) return;
    std::string all;
    for (const std::string& line : lines_) all += (all.empty() ? "" : "\n") + line;
    throw Error(exit_, all);
  }

 private:
  void add_one(Exit exit, const std::string& line) {
    if (std::find(lines_.begin(), lines_.end(), line) != lines_.end()) return;
    if (lines_.empty()) exit_ = exit;
    lines_.push_back(line);
  }

  Exit exit_ = Exit::kConfig;
  std::vector<std::string> lines_;
  size_t untold_ = 0;
};

}  // namespace lf
