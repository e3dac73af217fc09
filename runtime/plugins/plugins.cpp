#include "plugins/plugins.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/log.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/dependencies.h"
#include "plugins/library.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

Exit exit_of(int32_t code) {
  switch (code) {
    case LF_E_INVALID:
    case LF_E_UNSUPPORTED:
    case LF_E_ABI:
      return Exit::kConfig;
    case LF_E_DATA:
      return Exit::kBadData;
    case LF_E_BUG:
    case LF_E_EXCEPTION:
      return Exit::kBug;
    default:
      return Exit::kUnavailable;
  }
}

}  // namespace

Plugin::~Plugin() {
  if (!started_) return;
  lf_err err = sdk::make_err();
  if (descriptor_->stop(&err) != LF_OK) log::error("{}: stop: {}", path().string(), err.message);
}

void Plugin::start(const lf_host* host) {
  if (started_) fail(Exit::kBug, "{}: started twice", path().string());
  lf_err err = sdk::make_err();
  if (const int32_t code = descriptor_->start(host, &err); code != LF_OK)
    fail(exit_of(code), "{}: start: {}", path().string(),
         err.message[0] != '\0' ? std::string(err.message) : fmt::format("error {}", code));
  started_ = true;
}

const void* Plugin::find_interface(std::string_view interface_id) const {
  return descriptor_->get_interface(sdk::str(interface_id));
}

bool would_be(const Candidate& candidate, PluginKind kind, std::string_view id) {
  if (candidate.manifest) return candidate.manifest->kind == kind && candidate.manifest->id == id;
  return candidate.path.filename() == fmt::format("{}.lfplugin.so", id);
}

PluginSet::PluginSet(const std::vector<std::filesystem::path>& dirs, PluginHost host, bool probing)
    : dirs_(dirs), host_(std::move(host)), probing_(probing), candidates_(list_plugins(dirs, host_)) {}

PluginSet::~PluginSet() {
  while (!loaded_.empty()) loaded_.pop_back();
}

const Candidate& PluginSet::find(PluginKind kind, std::string_view id) const {
  std::vector<const Candidate*> accepted;
  const Candidate* refused = nullptr;  // that says it is, or by its file name would be, what is wanted
  std::vector<std::string> others;
  size_t n_refused = 0;
  for (const Candidate& candidate : candidates_) {
    n_refused += candidate.refusal.has_value();
    const bool wanted = would_be(candidate, kind, id);
    if (!candidate.refusal && wanted)
      accepted.push_back(&candidate);
    else if (candidate.refusal && wanted)
      refused = &candidate;
    else if (!candidate.refusal && candidate.manifest->kind == kind)
      others.push_back(candidate.manifest->id);
  }
  if (accepted.size() == 1) return *accepted[0];
  if (accepted.size() > 1)
    fail(Exit::kConfig, "{} and {}: expected one {} plugin {}, got two; remove one, or name fewer folders",
         accepted[0]->path.string(), accepted[1]->path.string(), kind_word(kind), id);
  if (refused != nullptr) fail(Exit::kConfig, "{}: {}", refused->path.string(), *refused->refusal);
  std::vector<std::string> folders;
  for (const auto& dir : dirs_) folders.push_back(dir.string());
  std::string next =
      others.empty() ? "no other of that kind is there" : fmt::format("others there: {}", fmt::join(others, ", "));
  if (n_refused > 0) next += fmt::format(" ({} refused: `lfrun plugins list` says why)", n_refused);
  next += "; name its folder by --plugin-dir, or build it (in a source tree: make build)";
  fail(Exit::kConfig, "{} plugin {}: expected one in {}, got none; {}", kind_word(kind), id,
       folders.empty() ? "a folder named by --plugin-dir" : fmt::format("{}", fmt::join(folders, ", ")), next);
}

void PluginSet::require_one_of_each_library(const std::vector<std::filesystem::path>& files) const {
  std::vector<std::filesystem::path> together = files;
  if (!host_.core.empty()) together.insert(together.begin(), host_.core);
  if (const auto conflict = vendor_conflict(together, host_.library_path)) fail(Exit::kConfig, "{}", *conflict);
}

void PluginSet::verify(PluginKind kind, std::string_view id) const {
  const Candidate& candidate = find(kind, id);
  if (const auto reason = probe_plugin(candidate, kProbeLimit))
    fail(Exit::kConfig, "{}: {}", candidate.path.string(), *reason);
}

Plugin& PluginSet::load(PluginKind kind, std::string_view id) {
  const Candidate& candidate = find(kind, id);
  for (const auto& plugin : loaded_)
    if (plugin->path() == candidate.path) return *plugin;
  if (probing_) {  // else whoever forked this process has judged all that it loads together
    if (!libraries_) {
      libraries_ = std::make_unique<VendorLibraries>(host_.library_path);
      if (!host_.core.empty()) libraries_->take(host_.core);
    }
    if (const auto conflict = libraries_->take(candidate.path)) fail(Exit::kConfig, "{}", *conflict);
    verify(kind, id);
  }
  try {
    const lf_plugin* descriptor = open_plugin(candidate, [](OpenStage) {});
    loaded_.push_back(std::unique_ptr<Plugin>(new Plugin(candidate, descriptor)));
  } catch (const Refusal& refusal) {
    fail(Exit::kConfig, "{}: {}", candidate.path.string(), refusal.what());
  }
  return *loaded_.back();
}

}  // namespace lf
