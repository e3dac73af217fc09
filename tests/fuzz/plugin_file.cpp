// A plugin file before it is loaded: the ELF walk to its note, and the manifest in it.
#include "fuzz/target.h"
#include "plugins/elf_file.h"
#include "plugins/elf_note.h"
#include "plugins/manifest.h"
#include "plugins/refusal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lf::fuzz::MemoryFile memory(lf::fuzz::text_of(data, size));
  struct stat status {};
  if (::fstat(memory.file(), &status) != 0) __builtin_trap();
  const lf::OpenFile file(::dup(memory.file()), status);
  for (const bool as_file : {true, false}) {
    try {
      const lf::Manifest manifest = lf::parse_manifest(as_file ? lf::read_plugin_note(lf::ElfFile(file))
                                                               : std::string(lf::fuzz::text_of(data, size)));
      lf::require_compatible(manifest, lf::PluginHost{.torch_build = "2.11.0"});
    } catch (const lf::Refusal& refusal) {
      lf::fuzz::check_message(refusal.what());
    }
  }
  return 0;
}
