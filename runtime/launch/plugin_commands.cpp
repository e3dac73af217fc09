#include "launch/plugin_commands.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

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

Verdict verify_plugins(const std::vector<std::string>& files, const PluginHost& host) {
  constexpr std::chrono::seconds kLimit{10};
  Verdict verdict;
  for (const std::string& file : files) {
    const auto reason = probe_plugin(judge_plugin(file, host), kLimit);
    verdict.text += fmt::format("{}: {}\n", file, reason ? *reason : "good");
    verdict.all_good &= !reason;
  }
  return verdict;
}

}  // namespace lf
