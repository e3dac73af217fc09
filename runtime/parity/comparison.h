// What a run made against what the reference states, line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "parity/numbers.h"

namespace lf {

// One line of the table, and whether it holds.
class Table {
 public:
  void row(const std::string& name, const std::string& what, double difference, double allowed) {
    const bool ok = difference <= allowed;  // NaN is not
    head();
    misses_ += ok ? 0 : 1;
    ++rows_;
    fmt::print("{:<14} {:<44} {:>11.3e} {:>11.3e}  {}\n", name, what, difference, allowed, ok ? "ok" : "MISS");
  }
  void shown(const std::string& name, const std::string& what, double difference) {
    head();
    fmt::print("{:<14} {:<44} {:>11.3e} {:>11}\n", name, what, difference, "-");
  }
  void miss(const std::string& name, const std::string& what) {
    head();
    ++misses_;
    ++rows_;
    fmt::print("{:<14} {:<44} {:>23}  MISS\n", name, what, "");
  }
  void note(const std::string& name, const std::string& what) { fmt::print("{:<14} {}\n", name, what); }
  int misses() const { return misses_; }
  int rows() const { return rows_; }

 private:
  void head() {  // above the first line only: an error before it leaves no empty table
    if (std::exchange(has_head_, true)) return;
    fmt::print("{:<14} {:<44} {:>11} {:>11}\n", "case", "what", "difference", "allowed");
  }

  int misses_ = 0, rows_ = 0;
  bool has_head_ = false;
};

// NaN anywhere makes it NaN.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);

// Only rows that were run: what a reference says of its padding is its own affair.
double difference_at(const std::vector<int64_t>& rows, size_t columns, const Array& ours, const Array& expected);

// What the reference states under a name, or, for a case of several runs, under "0.name", "1.name" ..., one after the
// other. Nothing where it states neither.
std::optional<Array> stated(const Arrays& expected, const std::string& name);

// A row for all gradients: the worst share of what a tensor may differ by, or in bf16 all of them together.
void compare_gradients(Table& table, const std::string& name, const Arrays& ours, const Arrays& expected, bool bf16);

}  // namespace lf
