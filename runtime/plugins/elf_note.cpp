#include "plugins/elf_note.h"

#include <cstring>
#include <string_view>

#include "plugins/refusal.h"

namespace lf {
namespace {

// Of one note "lfplug" of that type, which is the whole section.
std::string text_of(const ElfFile& file, const Elf64_Shdr& section, std::string_view name, uint32_t type) {
  constexpr uint64_t kMostNoteBytes = 64 << 10;
  constexpr char kOwner[8] = "lfplug";
  struct {
    Elf64_Nhdr header;
    char owner[8];
  } head;
  if (section.sh_size < sizeof head || section.sh_size > kMostNoteBytes)
    refuse("expected a note of at most {} bytes in {}, got a section of {}", kMostNoteBytes, name, section.sh_size);
  file.read(section.sh_offset, &head, sizeof head, "a note");
  if (head.header.n_namesz != sizeof "lfplug" || std::memcmp(head.owner, kOwner, sizeof kOwner) != 0 ||
      head.header.n_type != type || head.header.n_descsz > section.sh_size - sizeof head)
    refuse("expected one note \"lfplug\" of type {} in {}, got something else; see LF_PLUGIN_MANIFEST", type, name);
  std::string text(head.header.n_descsz, '\0');
  file.read(section.sh_offset + sizeof head, text.data(), text.size(), "a note");
  return text.substr(0, text.find('\0'));
}

}  // namespace

std::string read_plugin_note(const ElfFile& file) {
  constexpr std::string_view kSection = ".note.lfplugin";
  const Elf64_Shdr* const section = file.find_section(SHT_NOTE, kSection);
  if (section == nullptr)
    refuse("expected a plugin manifest (section {}), got an ordinary shared object; see LF_PLUGIN_MANIFEST", kSection);
  return text_of(file, *section, kSection, 1);
}

std::string read_compiler_note(const ElfFile& file) {
  constexpr std::string_view kSection = ".note.lfcompiler";
  const Elf64_Shdr* const section = file.find_section(SHT_NOTE, kSection);
  return section == nullptr ? std::string() : one_line(text_of(file, *section, kSection, 2));
}

}  // namespace lf
