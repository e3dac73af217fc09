// An ELF shared object for x86-64, by reading alone: nothing of it is mapped or run, and whatever the file holds, every
// offset is checked before it is used. Layout: System V ABI, chapter 4, and its AMD64 supplement; <elf.h>.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

#include "plugins/trust.h"

namespace lf {

class ElfFile {
 public:
  // Throws Refusal unless the file is a whole x86-64 ELF shared object, every segment and section of it inside the
  // file. `file` must outlive this object.
  explicit ElfFile(const OpenFile& file);

  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const Elf64_Shdr* find_section(uint32_t type, std::string_view name) const;  // null: none
  const Elf64_Shdr* find_section(uint32_t type) const;

  // Bytes of the file. Throws Refusal, naming `what`, where they are not all inside it.
  void read(uint64_t offset, void* out, uint64_t size, const char* what) const;
  // A section's entries; a size that is no multiple is cut. Throws Refusal where there are more than `most`.
  template <typename Entry>
  std::vector<Entry> table(const Elf64_Shdr& section, uint64_t most, const char* what) const {
    require_count(section.sh_size / sizeof(Entry), most, what);
    std::vector<Entry> entries(section.sh_size / sizeof(Entry));
    read(section.sh_offset, entries.data(), entries.size() * sizeof(Entry), what);
    return entries;
  }
  // Where `size` bytes of the mapped object stand in the file. This is what the dynamic linker goes by; it never reads
  // the sections, which may say anything. Throws Refusal where they are not all of one segment, or another lies on
  // them.
  uint64_t offset_of(uint64_t address, uint64_t size, const char* what) const;

  // A table of names: its place and size in the file.
  struct Strings {
    uint64_t offset = 0, size = 0;
  };
  // The text at an offset of it, up to its NUL, at most 4,096 bytes; as it stands there, fit for no message.
  std::string text_at(const Strings& strings, uint64_t offset, const char* what) const;
  std::string text_at(const Elf64_Shdr& strings, uint64_t offset, const char* what) const {
    return text_at(Strings{strings.sh_offset, strings.sh_size}, offset, what);
  }

 private:
  bool inside(uint64_t offset, uint64_t size) const { return offset <= file_.size() && size <= file_.size() - offset; }
  [[noreturn]] void cut(const char* what) const;
  static void require_count(uint64_t count, uint64_t most, const char* what);
  void read_header();
  void read_segments();
  void read_sections();

  const OpenFile& file_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace lf
