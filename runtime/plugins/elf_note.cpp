// Layout: System V ABI, chapter 4 (object files), and its AMD64 supplement; <elf.h>.
#include "plugins/elf_note.h"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <elf.h>
#include <unistd.h>

#include "plugins/refusal.h"

namespace lf {
namespace {

constexpr std::string_view kSection = ".note.lfplugin";
constexpr uint64_t kMostNoteBytes = 64 << 10;
constexpr uint64_t kMostSections = 4096;

class ElfReader {
 public:
  explicit ElfReader(const OpenFile& file) : file_(file) {}

  std::string note() {
    read_header();
    check_segments();
    return note_text(find_section());
  }

 private:
  void read(uint64_t offset, void* out, uint64_t size, const char* what) const {
    if (!inside(offset, size)) cut(what);
    auto* bytes = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t n = pread(file_.fd(), bytes, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse("cannot be read: {}", std::strerror(errno));
      if (n == 0) cut(what);
      bytes += n;
      offset += static_cast<uint64_t>(n);
      size -= static_cast<uint64_t>(n);
    }
  }

  bool inside(uint64_t offset, uint64_t size) const { return offset <= file_.size() && size <= file_.size() - offset; }

  [[noreturn]] void cut(const char* what) const {
    refuse("expected a whole ELF file, got {} bytes in which {} ends outside; copy or build it again", file_.size(),
           what);
  }

  void read_header() {
    unsigned char ident[EI_NIDENT] = {};
    if (file_.size() < sizeof header_) {
      if (file_.size() >= SELFMAG) read(0, ident, SELFMAG, "the header");
      if (std::memcmp(ident, ELFMAG, SELFMAG) == 0) cut("the header");
      refuse("expected an ELF shared object, got {} bytes of something else", file_.size());
    }
    read(0, &header_, sizeof header_, "the header");
    std::memcpy(ident, header_.e_ident, sizeof ident);
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
      refuse("expected an ELF shared object, got {}",
             ident[0] == '#' && ident[1] == '!' ? "a script" : "something else");
    if (ident[EI_CLASS] != ELFCLASS64) refuse("expected a 64-bit ELF file, got a 32-bit one; build it for x86-64");
    if (ident[EI_DATA] != ELFDATA2LSB || ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT)
      refuse("expected a little-endian ELF file of version 1, got another encoding; build it for x86-64");
    if (header_.e_machine != EM_X86_64)
      refuse("expected a plugin for x86-64, got one for {}; build it for this machine",
             machine_name(header_.e_machine));
    if (header_.e_type != ET_DYN)
      refuse("expected a shared object, got ELF type {}; link it with -shared", header_.e_type);
    if (header_.e_ehsize != sizeof header_ || header_.e_phentsize != sizeof(Elf64_Phdr) ||
        header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_phnum == 0 || header_.e_phnum == PN_XNUM)
      refuse("expected the tables of an ELF shared object, got sizes that none has; the file is damaged");
    if (header_.e_shnum == 0 || header_.e_shnum > kMostSections || header_.e_shstrndx >= header_.e_shnum)
      refuse("expected a table of sections, got none that can be read; do not strip it away, or the file is damaged");
  }

  static std::string machine_name(uint16_t machine) {
    switch (machine) {
      case EM_386:
        return "32-bit x86";
      case EM_AARCH64:
        return "64-bit ARM";
      case EM_ARM:
        return "32-bit ARM";
      case EM_RISCV:
        return "RISC-V";
      case EM_PPC64:
        return "64-bit PowerPC";
      default:
        return fmt::format("ELF machine {}", machine);
    }
  }

  void check_segments() const {
    std::vector<Elf64_Phdr> segments(header_.e_phnum);
    read(header_.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr), "the table of segments");
    bool has_load = false, has_dynamic = false;
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_NULL) continue;
      if (!inside(segment.p_offset, segment.p_filesz)) cut("a segment");
      has_dynamic |= segment.p_type == PT_DYNAMIC;
      if (segment.p_type != PT_LOAD) continue;
      has_load = true;
      const uint64_t align = segment.p_align;
      const bool congruent =
          align <= 1 || ((align & (align - 1)) == 0 && (segment.p_vaddr - segment.p_offset) % align == 0);
      constexpr uint64_t kAddressSpace = uint64_t{1} << 47;
      if (segment.p_filesz > segment.p_memsz || !congruent || segment.p_memsz > kAddressSpace ||
          segment.p_vaddr > kAddressSpace - segment.p_memsz)
        refuse("expected segments that can be mapped, got one that cannot; the file is damaged");
    }
    if (!has_load || !has_dynamic) refuse("expected loadable and dynamic segments, got none; the file is damaged");
  }

  Elf64_Shdr find_section() const {
    std::vector<Elf64_Shdr> sections(header_.e_shnum);
    read(header_.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr), "the table of sections");
    for (const Elf64_Shdr& section : sections)
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !inside(section.sh_offset, section.sh_size))
        cut("a section");
    const Elf64_Shdr& names = sections[header_.e_shstrndx];
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != SHT_NOTE || names.sh_size < kSection.size() + 1 ||
          section.sh_name > names.sh_size - kSection.size() - 1)
        continue;
      char name[kSection.size() + 1];
      read(names.sh_offset + section.sh_name, name, sizeof name, "the section names");
      if (std::memcmp(name, kSection.data(), kSection.size()) == 0 && name[kSection.size()] == '\0') return section;
    }
    refuse("expected a plugin manifest (section {}), got an ordinary shared object; see LF_PLUGIN_MANIFEST", kSection);
  }

  std::string note_text(const Elf64_Shdr& section) const {
    constexpr char kOwner[8] = "lfplug";
    struct {
      Elf64_Nhdr header;
      char owner[8];
    } head;
    if (section.sh_size < sizeof head || section.sh_size > kMostNoteBytes)
      refuse("expected a manifest of at most {} bytes, got a section of {}", kMostNoteBytes, section.sh_size);
    read(section.sh_offset, &head, sizeof head, "the manifest");
    if (head.header.n_namesz != sizeof "lfplug" || std::memcmp(head.owner, kOwner, sizeof kOwner) != 0 ||
        head.header.n_type != 1 || head.header.n_descsz > section.sh_size - sizeof head)
      refuse("expected one note \"lfplug\" of type 1 in {}, got something else; see LF_PLUGIN_MANIFEST", kSection);
    std::string text(head.header.n_descsz, '\0');
    read(section.sh_offset + sizeof head, text.data(), text.size(), "the manifest");
    return text.substr(0, text.find('\0'));
  }

  const OpenFile& file_;
  Elf64_Ehdr header_{};
};

}  // namespace

std::string read_plugin_note(const OpenFile& file) { return ElfReader(file).note(); }

}  // namespace lf
