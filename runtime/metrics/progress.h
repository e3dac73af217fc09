// How a run looks from outside: one line a step, redrawn on a terminal, now and then elsewhere. Internal to metrics.
#pragma once

#include <optional>
#include <string>

#include "metrics/report.h"

namespace lf {

// Elapsed and remaining time are part of the line as "elapsed<left"; without `left_seconds` it says "?".
std::string progress_line(const StepReport& report, std::optional<double> left_seconds);

struct BarStyle {
  int columns = 80;
  bool colour = true, unicode = true;
};

// At most `columns` wide, colours not counted: a bar, and as much of the line as fits, the most wanted first.
std::string progress_bar(const StepReport& report, std::optional<double> left_seconds, const BarStyle& style);

// Draws on a descriptor (borrowed). A terminal that takes no bytes at the moment is left alone: drawing never waits.
class Progress {
 public:
  struct Options {
    int descriptor = 2;
    bool terminal = false;  // redraw one line; else a plain one every `seconds`
    double seconds = 5;
    bool colour = true, unicode = true;
  };
  explicit Progress(Options options) : options_(options) {}

  void show(const StepReport& report, std::optional<double> left_seconds);
  void end();  // the last step's line, where it does not stand there already

 private:
  void print(const std::string& text) const;

  Options options_;
  std::optional<StepReport> last_;
  std::optional<double> left_seconds_;
  double printed_at_ = -1e300;  // of elapsed seconds
  bool printed_last_ = true;
};

}  // namespace lf
