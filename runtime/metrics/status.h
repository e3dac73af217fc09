// status.json: where a run stands, for whoever polls it. Internal to metrics.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "metrics/report.h"

namespace lf {

// {"state": "running" | ..., "process" (of rank 0), "step", "total_steps", "elapsed_seconds", "eta_seconds", "updated",
// "metrics": the last row of metrics.jsonl}. `report` absent: no step has finished.
std::string status_json(const std::string& state, const std::optional<StepReport>& report,
                        std::optional<double> left_seconds, double unix_seconds);

}  // namespace lf
