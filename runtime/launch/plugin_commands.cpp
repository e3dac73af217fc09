#include "launch/plugin_commands.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "core/error.h"
#include "plugins/inspect.h"
#include "plugins/lock.h"

namespace lf {

std::string plugin_table(const std::vector<Candidate>& candidates) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"KIND", "ID", "VERSION", "ABI", "LIBTORCH", "FILE"}};
  std::string refused;
  for (const Candidate& candidate : candidates) {
    if (candidate.refusal) {
      refused += fmt::format("refused: {}: {}\n", candidate.path.string(), *candidate.refusal);
    } else {
      const Manifest& manifest = *candidate.manifest;
      rows.push_back({std::string(kind_word(manifest.kind)), manifest.id, manifest.version, manifest.abi,
                      manifest.torch, candidate.path.string()});
    }
  }
  std::array<size_t, 6> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text + refused;
}

namespace {

void require_there(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (std::error_code error;
        std::filesystem::symlink_status(file, error).type() == std::filesystem::file_type::not_found)
      fail(Exit::kInputMissing,
           "{}: expected the file of a plugin, got nothing there; `lfrun plugins list` shows the files of those that "
           "are "
           "installed",
           file);
}

}  // namespace

Verdict inspect_plugins(const std::vector<std::string>& files, const PluginHost& host,
                        const std::string& library_path) {
  require_there(files);
  Verdict verdict;
  for (const std::string& file : files) {
    const Inspection inspection = inspect_plugin(file, host, library_path);
    verdict.text += (verdict.text.empty() ? "" : "\n") + inspection.text;
    verdict.all_good &= inspection.acceptable;
  }
  return verdict;
}

Verdict verify_plugins(const VerifyRequest& request, const PluginHost& host) {
  require_there(request.files);
  Verdict verdict;
  for (const std::string& file : request.files) {
    const Candidate candidate = judge_plugin(file, host);
    const KitReport report = run_conformance(candidate, request.kit);
    verdict.text += request.json ? report_json(candidate, report) : report_text(candidate, report, request.all);
    verdict.all_good &= report.passed();
  }
  return verdict;
}

std::string lock_plugins(const std::vector<std::filesystem::path>& folders, const PluginHost& host) {
  if (folders.empty())
    fail(Exit::kUsage, "plugins lock: expected a folder of plugins, got none; name it with --plugin-dir");
  std::string text;
  for (const std::filesystem::path& folder : folders) {
    const size_t n = write_lock(folder, host);
    text += fmt::format("{}: {} plugins locked\n", (folder / kLockFile).string(), n);
  }
  return text;
}

}  // namespace lf
