// The conformance kit: a plugin's promises (lf/plugin_api), tried one by one, each in a process of its own.
//
//   KitReport report = run_conformance(candidate, {});     // `lfrun plugins verify`, and lf_conformance() of the SDK
//
// What a plugin does wrong becomes a line: a wrong answer, a crash with its signal, silence for longer than the limit;
// the last two with the function of the ABI that they happened in. After three silences nothing more is tried: a plugin
// that hangs would take half an hour. The calling process never runs the plugin's code.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/plugins.h"

namespace lf {

struct KitOptions {
  // For a model plugin: a folder with config.json and samples.jsonl (one canonical sample a line, docs/samples.md), and
  // tokenizer/ where the family needs one. A picture's path ends with its size, as in "any_56x84.png"; the kit paints
  // it.
  std::filesystem::path case_folder;
  std::chrono::milliseconds case_limit{20'000};
  std::string only;  // cases whose name contains this; empty: all
};

enum class Outcome { kPassed, kSkipped, kFailed, kNotTried };

struct CaseResult {
  std::string name;
  Outcome outcome = Outcome::kFailed;
  std::string detail;  // why it failed, was skipped or not tried, one line
};

struct KitReport {
  std::vector<CaseResult> cases;
  std::string refusal;  // why there was nothing to try; else empty
  size_t count(Outcome outcome) const;
  bool passed() const { return refusal.empty() && count(Outcome::kFailed) == 0 && count(Outcome::kNotTried) == 0; }
};

// Forks; call it from a process that runs one thread. Throws lf::Error where the system gives no process or memory, and
// kInputMissing where a case folder is named and is not there or lacks a file.
KitReport run_conformance(const Candidate& candidate, const KitOptions& options);

// For people: failures and a sum; with `all` every case. For machines: one JSON object, with the file's sha256.
std::string report_text(const Candidate& candidate, const KitReport& report, bool all);
std::string report_json(const Candidate& candidate, const KitReport& report);

}  // namespace lf
