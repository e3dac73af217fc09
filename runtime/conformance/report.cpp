#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "conformance/conformance.h"
#include "plugins/sha256.h"

namespace lf {
namespace {

const char* word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kSkipped:
      return "skipped";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kNotTried:
      return "not tried";
  }
  return "failed";
}

// Each once, in the order of the cases, with how many were skipped for it.
std::vector<std::pair<std::string, size_t>> reasons_of_skips(const KitReport& report) {
  std::vector<std::pair<std::string, size_t>> reasons;
  for (const CaseResult& one : report.cases) {
    if (one.outcome != Outcome::kSkipped) continue;
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) { return reason.first == one.detail; });
    if (known == reasons.end())
      reasons.emplace_back(one.detail, 1);
    else
      ++known->second;
  }
  return reasons;
}

}  // namespace

std::string report_text(const Candidate& candidate, const KitReport& report, bool all) {
  const std::string file = candidate.path.string();
  if (!report.refusal.empty()) return fmt::format("{}: refused: {}\n", file, report.refusal);
  std::string text;
  for (const CaseResult& one : report.cases)
    if (all || one.outcome == Outcome::kFailed)
      text +=
          fmt::format("{}: {} {}{}{}\n", file, word(one.outcome), one.name, one.detail.empty() ? "" : ": ", one.detail);
  text += fmt::format("{}: {}: {} passed, {} failed, {} skipped of {} cases\n", file,
                      report.passed() ? "conforms" : "does not conform", report.count(Outcome::kPassed),
                      report.count(Outcome::kFailed), report.count(Outcome::kSkipped), report.cases.size());
  if (!all)
    for (const auto& [reason, n] : reasons_of_skips(report))
      text += fmt::format("{}: {} skipped: {}\n", file, n, reason);
  if (const size_t left = report.count(Outcome::kNotTried); left > 0)
    text += fmt::format("{}: {} cases were {}; mend that first, or name cases by --only\n", file, left,
                        report.cases.back().detail);
  return text;
}

std::string report_json(const Candidate& candidate, const KitReport& report) {
  nlohmann::ordered_json json = {{"file", candidate.path.string()}, {"passed", report.passed()}};
  if (candidate.manifest) {
    json["kind"] = kind_word(candidate.manifest->kind);
    json["id"] = candidate.manifest->id;
    json["version"] = candidate.manifest->version;
    json["sha256"] = sha256_of_file(candidate.path);
  }
  json["kit"] = {{"abi", fmt::format("{}.{}", LF_ABI_MAJOR, LF_ABI_MINOR)}};
  if (!report.refusal.empty()) json["refusal"] = report.refusal;
  json["cases"] = nlohmann::ordered_json::array();
  for (const CaseResult& one : report.cases) {
    nlohmann::ordered_json item = {{"name", one.name}, {"outcome", word(one.outcome)}};
    if (!one.detail.empty()) item["detail"] = one.detail;
    json["cases"].push_back(std::move(item));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lf
