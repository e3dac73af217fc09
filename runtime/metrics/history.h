// metrics.jsonl: one JSON object a step, each step once, whatever was interrupted and resumed. Internal to metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/append_file.h"
#include "metrics/report.h"

namespace lf {

// One object without a line end: step, loss, grad_norm, lr, supervised_tokens and the rest of the report. What is not
// finite is null.
std::string json_row(const StepReport& report);

struct CurvePoint {
  int64_t step = 0;
  double loss = 0, learning_rate = 0;
};

class History {
 public:
  // Drops rows of steps after `finished_steps`, a torn last line, and lines that are no rows; keeps the others as they
  // are. Throws lf::Error(kCannotCreate, kIo).
  History(const std::filesystem::path& file, int64_t finished_steps);
  void append(const StepReport& report);  // throws lf::Error(kIo); the curve keeps the point all the same
  const std::vector<CurvePoint>& curve() const { return curve_; }

 private:
  void remember(const CurvePoint& point);

  std::vector<CurvePoint> curve_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace lf
