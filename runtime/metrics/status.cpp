#include "metrics/status.h"

#include <cmath>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "metrics/history.h"
#include "metrics/text.h"

namespace lf {

std::string status_json(const std::string& state, const std::optional<StepReport>& report,
                        std::optional<double> left_seconds, double unix_seconds) {
  using Json = nlohmann::ordered_json;
  Json status{{"state", state}, {"process", getpid()}};
  if (report) {
    status["step"] = report->step;
    status["total_steps"] = report->total_steps;
    status["elapsed_seconds"] = report->elapsed_seconds;
    status["eta_seconds"] = left_seconds && std::isfinite(*left_seconds) ? Json(*left_seconds) : Json(nullptr);
    status["metrics"] = Json::parse(json_row(*report));
  }
  status["updated"] = utc_time(unix_seconds);
  return status.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lf
