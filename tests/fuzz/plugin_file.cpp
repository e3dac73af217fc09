// A plugin file before it is loaded: the ELF walk to its note, what it is linked to, and the manifest in it.
#include "fuzz/target.h"
#include "plugins/elf_note.h"
#include "plugins/linkage.h"
#include "plugins/manifest.h"
#include "plugins/processor.h"
#include "plugins/refusal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lf::fuzz::MemoryFile memory(lf::fuzz::text_of(data, size));
  struct stat status {};
  if (::fstat(memory.file(), &status) != 0) __builtin_trap();
  const lf::OpenFile file(::dup(memory.file()), status);
  const auto without_refusal = [](auto&& body) {
    try {
      body();
    } catch (const lf::Refusal& refusal) {
      lf::fuzz::check_message(refusal.what());
    }
  };
  without_refusal([&] {
    const lf::ElfFile elf(file);
    without_refusal([&] { lf::require_fixed_places(lf::read_linkage(elf)); });
    without_refusal([&] { lf::read_symbols(elf); });
    without_refusal([&] { lf::require_processor(elf, 1); });
    without_refusal([&] { lf::read_compiler_note(elf); });
    lf::parse_manifest(lf::read_plugin_note(elf));
  });
  without_refusal([&] {
    const lf::Manifest manifest = lf::parse_manifest(lf::fuzz::text_of(data, size));
    lf::require_compatible(manifest, lf::PluginHost{.torch_build = "2.11.0"});
  });
  return 0;
}
