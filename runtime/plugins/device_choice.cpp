#include "plugins/device_choice.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.h"

namespace lf {
namespace {

constexpr std::string_view kHostDevice = "cpu";

bool is_device(const Candidate& candidate) {
  return candidate.manifest && !candidate.refusal && candidate.manifest->kind == PluginKind::kDevice;
}

// "; refused: PATH: WHY; ..." of every file that is a device plugin, or may be one since nothing can be read of it, and
// is not taken; or nothing.
std::string refusals(const PluginSet& plugins) {
  std::string text;
  for (const Candidate& candidate : plugins.candidates())
    if (candidate.refusal && (!candidate.manifest || candidate.manifest->kind == PluginKind::kDevice))
      text += fmt::format("; refused: {}: {}", candidate.path.string(), *candidate.refusal);
  return text;
}

// Whether a file that says, or by its name would be, that device is refused: the plugin is at fault, not the machine.
bool is_refused(const PluginSet& plugins, std::string_view id) {
  return std::any_of(plugins.candidates().begin(), plugins.candidates().end(), [&](const Candidate& candidate) {
    return candidate.refusal && would_be(candidate, PluginKind::kDevice, id);
  });
}

std::string searched(const PluginSet& plugins) {
  std::vector<std::string> folders;
  for (const auto& dir : plugins.dirs()) folders.push_back(dir.string());
  return folders.empty() ? "no folder (none is named by --plugin-dir)" : fmt::format("{}", fmt::join(folders, ", "));
}

std::string devices(uint32_t count) { return fmt::format("{} device{}", count, count == 1 ? "" : "s"); }

void require_one_each(std::string_view id, const DeviceSurvey& survey, int workers) {
  if (survey.host || static_cast<uint32_t>(workers) <= survey.count) return;
  fail(Exit::kUnavailable,
       "device {}: expected a card for each of the {} workers of this host, found {}; write launch.processes = {} (or "
       "-n {}), or make more cards visible",
       id, workers, survey.count, survey.count, survey.count);
}

DeviceChoice choose_named(const PluginSet& plugins, std::string_view wanted, int workers, std::string_view named_by,
                          DeviceLook look) {
  std::vector<const Candidate*> found;
  std::vector<std::string> others;
  for (const Candidate& candidate : plugins.candidates()) {
    if (!is_device(candidate)) continue;
    if (candidate.manifest->id == wanted)
      found.push_back(&candidate);
    else
      others.push_back(candidate.manifest->id);
  }
  if (found.size() > 1) plugins.find(PluginKind::kDevice, wanted);  // throws with both paths
  if (found.empty())
    fail(is_refused(plugins, wanted) ? Exit::kConfig : Exit::kUnavailable,
         "device {}: expected a device plugin of that name, searched {}: {}{}", wanted, searched(plugins),
         others.empty() ? "no device plugin is there" : fmt::format("there are {}", fmt::join(others, ", ")),
         refusals(plugins));
  const DeviceSurvey survey = survey_device(*found[0], kProbeLimit, static_cast<uint32_t>(workers), look);
  if (survey.refused) fail(Exit::kConfig, "device {}: refused: {}: {}", wanted, found[0]->path.string(), survey.reason);
  if (survey.count == 0)
    fail(Exit::kUnavailable, "device {}: {} finds no device: {}", wanted, found[0]->path.string(), survey.reason);
  require_one_each(wanted, survey, workers);
  return {std::string(wanted), fmt::format("{}; {} found", named_by, devices(survey.count)), survey.host,
          survey.memory_bytes, survey.torch_mode};
}

DeviceChoice choose_any(const PluginSet& plugins, int workers, DeviceLook look) {
  std::vector<std::string> there, absent;
  std::string id;
  DeviceSurvey chosen;
  bool host = false;
  for (const Candidate& candidate : plugins.candidates()) {
    if (!is_device(candidate)) continue;
    const std::string& name = candidate.manifest->id;
    if (name == kHostDevice) {
      host = true;
      continue;
    }
    const DeviceSurvey survey = survey_device(candidate, kProbeLimit, static_cast<uint32_t>(workers), look);
    if (survey.count > 0) {
      there.push_back(fmt::format("{} has {}", name, devices(survey.count)));
      id = name;
      chosen = survey;
    } else {
      absent.push_back(fmt::format("{} {}: {}", name, survey.refused ? "is refused" : "has none", survey.reason));
    }
  }
  const std::string without = absent.empty() ? "" : fmt::format("; {}", fmt::join(absent, "; "));
  if (there.size() > 1)
    fail(Exit::kUnavailable, "device auto: expected one kind of device, got {}; name one", fmt::join(there, ", "));
  if (there.size() == 1) require_one_each(id, chosen, workers);
  if (there.size() == 1)
    return {id, fmt::format("chosen by auto: {}{}", there[0], without), chosen.host, chosen.memory_bytes,
            chosen.torch_mode};
  if (!host)
    fail(Exit::kUnavailable, "device auto: found no device, searched {}{}{}", searched(plugins), without,
         refusals(plugins));
  return {std::string(kHostDevice),
          fmt::format("chosen by auto: no other device plugin finds a device{}{}", without, refusals(plugins)), true, 0,
          LF_TORCH_BUILT_IN};
}

}  // namespace

std::string device_named_by(std::string_view origin) {
  if (origin == "default") return "the default, as neither device.name nor LF_DEVICE is given";
  if (origin == "LF_DEVICE" || origin.starts_with("--")) return fmt::format("named by {}", origin);
  return "named by the job";
}

DeviceChoice choose_device(const PluginSet& plugins, std::string_view wanted, int workers, std::string_view named_by,
                           DeviceLook look) {
  return wanted == kAnyDevice ? choose_any(plugins, workers, look)
                              : choose_named(plugins, wanted, workers, named_by, look);
}

}  // namespace lf
