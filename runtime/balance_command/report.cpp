#include "balance_command/report.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "balance/scaling.h"
#include "balance_command/picture.h"
#include "core/error.h"

namespace lf {
namespace {

nlohmann::ordered_json to_json(const PolicyResult& row) {
  return {
      {"makespan", row.makespan},
      {"mean", row.mean},
      {"lower_bound", row.lower_bound},
      {"gap", row.gap()},
      {"moved_tokens", row.moved_tokens},
      {"moved_share", row.tokens > 0 ? static_cast<double>(row.moved_tokens) / static_cast<double>(row.tokens) : 0.0},
      {"plan_ms", row.plan_ms},
      {"empty_slots", row.empty_slots},
      {"cap_breaches", row.cap_breaches},
      {"planned_steps", row.planned},
      {"remedy", row.remedy}};
}

[[noreturn]] void refuse_place(const std::filesystem::path& path, const std::string& why) {
  fail(Exit::kCannotCreate, "--plot: {} cannot be written: {}; choose another place", path.string(), why);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) refuse_place(path, std::strerror(errno));
}

void write_table(const std::vector<PolicyResult>& rows, std::ostream& out) {
  out << fmt::format("{:<16}{:>12}{:>12}{:>12}{:>9}{:>9}{:>9}{:>10}{:>7}{:>10}\n", "policy", "makespan", "bound",
                     "mean", "max/mean", "gap", "moved", "plan ms", "empty", "breaches");
  for (const PolicyResult& row : rows)
    out << fmt::format(
        "{:<16}{:>12.6g}{:>12.6g}{:>12.6g}{:>9.4f}{:>8.2f}%{:>8.1f}%{:>10.3f}{:>7}{:>10}\n", row.policy, row.makespan,
        row.lower_bound, row.mean, row.mean > 0 ? row.makespan / row.mean : 1, 100 * row.gap(),
        row.tokens > 0 ? 100.0 * static_cast<double>(row.moved_tokens) / static_cast<double>(row.tokens) : 0,
        row.plan_ms, row.empty_slots, row.cap_breaches);
  for (const PolicyResult& row : rows)
    if (!row.remedy.empty()) {
      out << row.remedy << "\n";
      break;
    }
  const auto none = std::ranges::find(rows, "none", &PolicyResult::policy);
  const PolicyResult& best = recommended(rows);
  if (none == rows.end() || best.policy == "none" || best.makespan <= 0) return;
  out << fmt::format("{}: {:.1f}% less time a step than none, {:.2f} times its throughput.\n", best.policy,
                     100 * (1 - best.makespan / none->makespan), none->makespan / best.makespan);
}

std::string model_text(const Profile& p) {
  return fmt::format(
      "step = slowest rank, its time with {:.1f}% noise, + fixed {:.3g} s a micro-batch + other {:.3g} s a step + "
      "exposed communication;\n"
      "communication = 2 (R-1)/R * {:.3g} bytes / {:.3g} bytes/s + {:.3g} s * ceil(log2 R), hidden behind {:.0f}% of "
      "the mean rank's compute",
      100 * p.noise, p.fixed_seconds, p.other_seconds, p.gradient_bytes, p.bus_bandwidth, p.latency_seconds,
      100 * p.overlap);
}

}  // namespace

void require_place_for_plot(const std::filesystem::path& path) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path)) refuse_place(path, "it is a folder");
  const bool there = std::filesystem::exists(path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (::access((there ? path : folder).c_str(), W_OK) != 0) refuse_place(path, std::strerror(errno));
}

void report_comparison(const std::vector<PolicyResult>& rows, const Steps& steps, const BalanceOptions& options,
                       const Source& source, std::ostream& out) {
  if (options.json) {
    nlohmann::ordered_json json = {
        {"ranks", options.scenario.replicas},
        {"micro_batches", options.scenario.micro_batches},
        {"steps", steps.size()},
        {"samples", std::accumulate(steps.begin(), steps.end(), size_t{0},
                                    [](size_t n, const auto& step) { return n + step.size(); })},
        {"costs", source.costs},
        {"note", source.note}};
    for (const PolicyResult& row : rows) json["policies"][row.policy] = to_json(row);
    out << json.dump(1) << "\n";
  } else {
    if (!source.note.empty()) out << source.note << "\n";
    out << fmt::format("costs: {}\n{} step{} on {} ranks x {} micro-batches, seconds{}\n", source.costs, steps.size(),
                       steps.size() == 1 ? "" : "s", options.scenario.replicas, options.scenario.micro_batches,
                       steps.size() == 1 ? "" : " of all steps together");
    write_table(rows, out);
  }
  if (!options.plot.empty()) {
    const PolicyResult& after = recommended(rows);
    write_file(options.plot,
               bars_svg(rows.front().replica_seconds, after.replica_seconds, rows.front().policy, after.policy));
  }
}

void report_scaling(const std::vector<ScalingPoint>& points, const BalanceOptions& options, const Source& source,
                    std::ostream& out) {
  const std::optional<MeasuredStep>& measured = options.profile.measured;
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const ScalingPoint& point : points) {
      if (json.empty() || json.back()["ranks"] != point.replicas) json.push_back({{"ranks", point.replicas}});
      json.back()["policies"][point.policy] = {{"step_seconds", point.step_seconds},
                                               {"tokens_per_second_per_rank", point.tokens_per_second},
                                               {"efficiency", point.efficiency},
                                               {"exposed_seconds", point.exposed}};
    }
    nlohmann::ordered_json result = {
        {"model", model_text(options.profile)}, {"costs", source.costs}, {"note", source.note}, {"scaling", json}};
    if (measured)
      result["measured"] = {
          {"ranks", measured->ranks}, {"micro_batches", measured->micro_batches}, {"step_seconds", measured->seconds}};
    out << result.dump(1) << "\n";
  } else {
    if (!source.note.empty()) out << source.note << "\n";
    out << model_text(options.profile) << ";\ncosts: " << source.costs << "\n";
    if (measured)
      out << fmt::format("the profile's own run: {} ranks x {} micro-batches took {:.4g} s a step\n", measured->ranks,
                         measured->micro_batches, measured->seconds);
    out << fmt::format("{:>7} {:<16}{:>12}{:>12}{:>14}{:>12}\n", "ranks", "policy", "step s", "exposed s",
                       "tokens/s/rank", "efficiency");
    for (const ScalingPoint& point : points)
      out << fmt::format("{:>7} {:<16}{:>12.4f}{:>12.4f}{:>14.1f}{:>11.1f}%\n", point.replicas, point.policy,
                         point.step_seconds, point.exposed, point.tokens_per_second, 100 * point.efficiency);
  }
  if (options.plot.empty()) return;
  std::vector<Line> lines;
  for (const std::string& policy : options.policies) {
    lines.push_back({policy, {}});
    for (const ScalingPoint& point : points)
      if (point.policy == policy) lines.back().efficiency.push_back(point.efficiency);
  }
  write_file(options.plot, lines_svg({options.scaling.begin(), options.scaling.end()}, lines));
}

}  // namespace lf
