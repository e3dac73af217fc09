#include "metrics/history.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <nlohmann/json.hpp>

#include "metrics/run_file.h"

namespace lf {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_or_nan(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string json_row(const StepReport& report) {
  Json row{{"step", report.step},
           {"loss", number(report.loss)},
           {"grad_norm", number(report.grad_norm)},
           {"lr", number(report.learning_rate)},
           {"supervised_tokens", report.supervised_tokens},
           {"tokens", report.tokens},
           {"samples", report.samples},
           {"samples_in_all",
            {{"seen", report.counted.seen},
             {"bad", report.counted.bad},
             {"too_long", report.counted.too_long},
             {"cut", report.counted.cut}}},
           {"step_seconds", number(report.step_seconds)},
           {"supervised_tokens_per_second", number(per_second(report.supervised_tokens, report.step_seconds))},
           {"tokens_per_second", number(per_second(report.tokens, report.step_seconds))}};
  if (report.mfu) row["mfu"] = number(*report.mfu);
  row["memory_bytes"] = report.memory_bytes;
  row["peak_memory_bytes"] = report.peak_memory_bytes;
  row["data_wait_seconds"] = number(report.data_wait_seconds);
  row["model_seconds"] = number(report.model_seconds);
  row["peer_wait_seconds"] = number(report.peer_wait_seconds);
  row["reduction_exposed_seconds"] = number(report.reduction_exposed_seconds);
  row["optimizer_seconds"] = number(report.optimizer_seconds);
  row["rest_seconds"] = number(rest_seconds(report));
  row["cpu_seconds"] = number(report.cpu_seconds);
  row["thread_cpu_seconds"] = number(report.thread_cpu_seconds);
  row["model_cpu_seconds"] = number(report.model_cpu_seconds);
  row["optimizer_cpu_seconds"] = number(report.optimizer_cpu_seconds);
  if (const auto& balance = report.balance)
    row["balance"] = {{"planned", balance->planned},
                      {"arrival_imbalance", number(balance->arrival_imbalance)},
                      {"predicted_imbalance", number(balance->predicted_imbalance)},
                      {"measured_imbalance", number(balance->measured_imbalance)},
                      {"bound_gap", number(balance->bound_gap)},
                      {"saving_seconds", number(balance->saving_seconds)},
                      {"saving_error_seconds", number(balance->saving_error_seconds)},
                      {"plan_seconds", number(balance->plan_seconds)}};
  if (report.copies_hidden) row["copies_hidden"] = number(*report.copies_hidden);
  row["skipped"] = report.skipped;
  row["time"] = number(report.unix_seconds);
  for (const auto& [name, value] : report.aux) row["aux"][name] = number(value);
  return row.dump(-1, ' ', false, Json::error_handler_t::replace);
}

History::History(const std::filesystem::path& file, int64_t finished_steps) {
  std::ifstream in(file, std::ios::binary);
  const std::string old(std::istreambuf_iterator<char>(in), {});
  std::string kept;
  for (size_t begin = 0; begin < old.size();) {
    const size_t end = old.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = old.substr(begin, end - begin);
    begin = end + 1;
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    const CurvePoint point{row["step"].get<int64_t>(), number_or_nan(row, "loss"), number_or_nan(row, "lr")};
    if (point.step > finished_steps) continue;
    kept += line + "\n";
    remember(point);
  }
  if (kept != old) replace_in_run(file, kept);
  file_ = std::make_unique<AppendFile>(file);
}

void History::append(const StepReport& report) {
  remember({report.step, report.loss, report.learning_rate});
  file_->append(json_row(report) + "\n");
}

// The picture needs no more than this; a long run keeps every second, fourth ... point of its past.
void History::remember(const CurvePoint& point) {
  constexpr size_t kMost = 16'384;
  if (curve_.size() == kMost) {
    for (size_t i = 0; 2 * i < kMost; ++i) curve_[i] = curve_[2 * i];
    curve_.resize(kMost / 2);
  }
  curve_.push_back(point);
}

}  // namespace lf
