#include "plugins/elf_note.h"

#include <cstring>
#include <string_view>

#include "plugins/refusal.h"

namespace lf {

std::string read_plugin_note(const ElfFile& file) {
  constexpr std::string_view kSection = ".note.lfplugin";
  constexpr uint64_t kMostNoteBytes = 64 << 10;
  constexpr char kOwner[8] = "lfplug";
  const Elf64_Shdr* const section = file.find_section(SHT_NOTE, kSection);
  if (section == nullptr)
    refuse("expected a plugin manifest (section {}), got an ordinary shared object; see LF_PLUGIN_MANIFEST", kSection);
  struct {
    Elf64_Nhdr header;
    char owner[8];
  } head;
  if (section->sh_size < sizeof head || section->sh_size > kMostNoteBytes)
    refuse("expected a manifest of at most {} bytes, got a section of {}", kMostNoteBytes, section->sh_size);
  file.read(section->sh_offset, &head, sizeof head, "the manifest");
  if (head.header.n_namesz != sizeof "lfplug" || std::memcmp(head.owner, kOwner, sizeof kOwner) != 0 ||
      head.header.n_type != 1 || head.header.n_descsz > section->sh_size - sizeof head)
    refuse("expected one note \"lfplug\" of type 1 in {}, got something else; see LF_PLUGIN_MANIFEST", kSection);
  std::string text(head.header.n_descsz, '\0');
  file.read(section->sh_offset + sizeof head, text.data(), text.size(), "the manifest");
  return text.substr(0, text.find('\0'));
}

}  // namespace lf
