#include "plugins/elf_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "plugins/refusal.h"

namespace lf {
namespace {

constexpr uint64_t kMostSections = 4096;

std::string machine_name(uint16_t machine) {
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

}  // namespace

ElfFile::ElfFile(const OpenFile& file) : file_(file) {
  read_header();
  read_segments();
  read_sections();
}

void ElfFile::read(uint64_t offset, void* out, uint64_t size, const char* what) const {
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

void ElfFile::cut(const char* what) const {
  refuse("expected a whole ELF file, got {} bytes in which {} ends outside; copy or build it again", file_.size(),
         what);
}

void ElfFile::require_count(uint64_t count, uint64_t most, const char* what) {
  if (count > most) refuse("expected at most {} entries in {}, got {}; the file is damaged", most, what, count);
}

void ElfFile::read_header() {
  unsigned char ident[EI_NIDENT] = {};
  if (file_.size() < sizeof header_) {
    if (file_.size() >= SELFMAG) read(0, ident, SELFMAG, "the header");
    if (std::memcmp(ident, ELFMAG, SELFMAG) == 0) cut("the header");
    refuse("expected an ELF shared object, got {} bytes of something else", file_.size());
  }
  read(0, &header_, sizeof header_, "the header");
  std::memcpy(ident, header_.e_ident, sizeof ident);
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
    refuse("expected an ELF shared object, got {}", ident[0] == '#' && ident[1] == '!' ? "a script" : "something else");
  if (ident[EI_CLASS] != ELFCLASS64) refuse("expected a 64-bit ELF file, got a 32-bit one; build it for x86-64");
  if (ident[EI_DATA] != ELFDATA2LSB || ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT)
    refuse("expected a little-endian ELF file of version 1, got another encoding; build it for x86-64");
  if (header_.e_machine != EM_X86_64)
    refuse("expected a plugin for x86-64, got one for {}; build it for this machine", machine_name(header_.e_machine));
  if (header_.e_type != ET_DYN)
    refuse("expected a shared object, got ELF type {}; link it with -shared", header_.e_type);
  if (header_.e_ehsize != sizeof header_ || header_.e_phentsize != sizeof(Elf64_Phdr) ||
      header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_phnum == 0 || header_.e_phnum == PN_XNUM)
    refuse("expected the tables of an ELF shared object, got sizes that none has; the file is damaged");
  if (header_.e_shnum == 0 || header_.e_shnum > kMostSections || header_.e_shstrndx >= header_.e_shnum)
    refuse("expected a table of sections, got none that can be read; do not strip it away, or the file is damaged");
}

void ElfFile::read_segments() {
  segments_.resize(header_.e_phnum);
  read(header_.e_phoff, segments_.data(), segments_.size() * sizeof(Elf64_Phdr), "the table of segments");
  bool has_load = false, has_dynamic = false;
  for (const Elf64_Phdr& segment : segments_) {
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

void ElfFile::read_sections() {
  sections_.resize(header_.e_shnum);
  read(header_.e_shoff, sections_.data(), sections_.size() * sizeof(Elf64_Shdr), "the table of sections");
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !inside(section.sh_offset, section.sh_size))
      cut("a section");
}

const Elf64_Shdr* ElfFile::find_section(uint32_t type, std::string_view name) const {
  const Elf64_Shdr& names = sections_[header_.e_shstrndx];
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_type == type && section.sh_name < names.sh_size &&
        text_at(names, section.sh_name, "the section names") == name)
      return &section;
  return nullptr;
}

const Elf64_Shdr* ElfFile::find_section(uint32_t type) const {
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_type == type) return &section;
  return nullptr;
}

uint64_t ElfFile::offset_of(uint64_t address, uint64_t size, const char* what) const {
  constexpr uint64_t kPage = 4096;
  const Elf64_Phdr* home = nullptr;
  uint64_t at_once = 0;  // segments mapped there, in whole pages
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    const uint64_t begin = segment.p_vaddr / kPage * kPage;
    const uint64_t end = (segment.p_vaddr + segment.p_memsz + kPage - 1) / kPage * kPage;
    at_once += address < end && (address >= begin || size > begin - address);
    const uint64_t into = address - segment.p_vaddr;  // of an address before it: too large
    if (into <= segment.p_filesz && size <= segment.p_filesz - into) home = &segment;
  }
  if (home == nullptr || at_once != 1)
    refuse("expected {} in one segment of the file, got {}; the file is damaged", what,
           at_once > 1 ? "two at its place" : "none that holds it");
  return home->p_offset + (address - home->p_vaddr);
}

std::string ElfFile::text_at(const Strings& strings, uint64_t offset, const char* what) const {
  constexpr uint64_t kMost = 4096;
  if (offset >= strings.size) cut(what);
  std::string text;
  while (text.size() < kMost) {
    char block[128];
    const uint64_t n = std::min<uint64_t>(sizeof block, strings.size - offset - text.size());
    if (n == 0) cut(what);
    read(strings.offset + offset + text.size(), block, n, what);
    const size_t length = strnlen(block, n);
    text.append(block, length);
    if (length < n) return text;
  }
  refuse("expected names of at most {} bytes in {}; the file is damaged", kMost, what);
}

}  // namespace lf
