#include "plugins/library.h"

#include <boost/dll/shared_library.hpp>
#include <dlfcn.h>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/mapped.h"
#include "plugins/parts.h"
#include "plugins/refusal.h"
#include "plugins/trust.h"

namespace lf {
namespace {

// Boost.DLL's default is lazy binding, with which a missing symbol ends the process in the middle of training; its
// destructor unloads, which RTLD_NODELETE makes harmless (docs/adr/0002).
constexpr auto kMode = static_cast<boost::dll::load_mode::type>(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

// Boost.DLL's message with the frame taken off: what the dynamic linker said.
std::string linker_text(std::string_view text) {
  constexpr std::string_view kHead = "dlerror system message: ";
  if (const size_t head = text.find(kHead); head != std::string_view::npos) {
    text.remove_prefix(head + kHead.size());
    if (const size_t tail = text.rfind("): "); tail != std::string_view::npos) text = text.substr(0, tail);
  }
  return one_line(text);
}

void require_descriptor(const lf_plugin* plugin, const Manifest& manifest) {
  if (plugin == nullptr)
    refuse("{} returned nothing for ABI {}.{}; rebuild it against this lfrun's plugin_api", LF_PLUGIN_ENTRY_NAME,
           LF_ABI_MAJOR, LF_ABI_MINOR);
  if (!LF_HAS(plugin, magic) || plugin->magic != LF_PLUGIN_MAGIC)
    refuse("expected a descriptor with magic {:#x}, got {:#x}; the plugin is damaged", LF_PLUGIN_MAGIC, plugin->magic);
  if (!LF_HAS(plugin, get_interface) || !LF_HAS(plugin, start) || !LF_HAS(plugin, stop))
    refuse("expected a descriptor with get_interface, start and stop, got {} bytes of it or a null", plugin->h.size);
  if (plugin->kind != static_cast<int32_t>(manifest.kind))
    refuse("expected the kind of the manifest ({}, {}), got {} in the descriptor", kind_word(manifest.kind),
           static_cast<int32_t>(manifest.kind), plugin->kind);
  if (sdk::view(plugin->id) != manifest.id)
    refuse("expected the id of the manifest ({}), got {} in the descriptor", manifest.id,
           one_line(sdk::view(plugin->id)));
}

}  // namespace

const lf_plugin* open_plugin(const Candidate& candidate, const std::function<void(OpenStage)>& stage) {
  const OpenFile file = open_trusted(candidate.path);
  require_as_judged(candidate, file);
  require_parts_as_judged(candidate);
  stage(OpenStage::kOpening);
  boost::dll::shared_library library;
  try {
    library.load(candidate.path, kMode);
  } catch (const std::exception& error) {  // Boost.DLL's own; what a constructor of the plugin throws ends the process
    refuse("cannot be opened: {}", linker_text(error.what()));
  }
  if (!library.has(LF_PLUGIN_ENTRY_NAME))
    refuse("expected one exported symbol {}, got none; build it with lf_add_plugin", LF_PLUGIN_ENTRY_NAME);
  const auto& entry = library.get<const lf_plugin*(uint32_t, uint32_t)>(LF_PLUGIN_ENTRY_NAME);
  require_mapped_from(file, reinterpret_cast<const void*>(&entry));
  stage(OpenStage::kEntry);
  const lf_plugin* plugin = entry(LF_ABI_MAJOR, LF_ABI_MINOR);
  require_descriptor(plugin, *candidate.manifest);
  stage(OpenStage::kInterfaces);
  for (const std::string& id : candidate.manifest->interfaces)
    if (plugin->get_interface(sdk::str(id)) == nullptr)
      refuse("expected interface {}, which its manifest offers, got nothing", id);
  return plugin;
}

}  // namespace lf
