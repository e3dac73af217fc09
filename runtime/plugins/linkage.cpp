#include "plugins/linkage.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "plugins/refusal.h"

namespace lf {
namespace {

constexpr uint64_t kMostDynamic = 1 << 16, kMostSymbols = 1 << 24, kMostVersions = 1 << 16;

const Elf64_Shdr& strings_of(const ElfFile& file, const Elf64_Shdr& section) {
  if (section.sh_link >= file.sections().size())
    refuse("expected a section of names for section {}, got none; the file is damaged", section.sh_link);
  return file.sections()[section.sh_link];
}

std::vector<std::string> entries_of(const std::string& list) {
  std::vector<std::string> entries;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    entries.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

// Index in .gnu.version -> name of the version that another library must have.
std::map<uint16_t, std::string> needed_versions(const ElfFile& file) {
  std::map<uint16_t, std::string> names;
  const Elf64_Shdr* const section = file.find_section(SHT_GNU_verneed);
  if (section == nullptr) return names;
  const Elf64_Shdr& strings = strings_of(file, *section);
  uint64_t at = 0, seen = 0;
  for (uint64_t n = 0; n < section->sh_info; ++n) {
    Elf64_Verneed need;
    if (at + sizeof need > section->sh_size || ++seen > kMostVersions) refuse("its table of versions is damaged");
    file.read(section->sh_offset + at, &need, sizeof need, "the table of versions");
    uint64_t aux_at = at + need.vn_aux;
    for (uint16_t k = 0; k < need.vn_cnt; ++k) {
      Elf64_Vernaux aux;
      if (aux_at + sizeof aux > section->sh_size || ++seen > kMostVersions) refuse("its table of versions is damaged");
      file.read(section->sh_offset + aux_at, &aux, sizeof aux, "the table of versions");
      names[aux.vna_other] = one_line(file.text_at(strings, aux.vna_name, "the names of versions"));
      if (aux.vna_next == 0) break;
      aux_at += aux.vna_next;
    }
    if (need.vn_next == 0) break;
    at += need.vn_next;
  }
  return names;
}

// Up to DT_NULL, where the linker stops.
std::vector<Elf64_Dyn> dynamic_entries(const ElfFile& file) {
  const Elf64_Phdr* dynamic = nullptr;
  for (const Elf64_Phdr& segment : file.segments()) {
    if (segment.p_type != PT_DYNAMIC) continue;
    if (dynamic != nullptr) refuse("expected one dynamic segment, got two; the file is damaged");
    dynamic = &segment;
  }
  if (dynamic == nullptr) refuse("expected a dynamic segment, got none; link it with -shared");
  const uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
  if (count > kMostDynamic) refuse("expected at most {} entries in the dynamic segment, got {}", kMostDynamic, count);
  std::vector<Elf64_Dyn> entries(count);
  const uint64_t bytes = count * sizeof(Elf64_Dyn);
  file.read(file.offset_of(dynamic->p_vaddr, bytes, "the dynamic segment"), entries.data(), bytes,
            "the dynamic segment");
  const auto end =
      std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) { return entry.d_tag == DT_NULL; });
  if (end == entries.end()) refuse("expected a dynamic segment that ends with DT_NULL, got none; the file is damaged");
  entries.erase(end, entries.end());
  return entries;
}

ElfFile::Strings dynamic_strings(const ElfFile& file, const std::vector<Elf64_Dyn>& entries) {
  uint64_t address = 0, size = 0;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
  }
  return {file.offset_of(address, size, "the names of needed libraries"), size};
}

bool below_origin(std::string_view entry) {
  for (const std::string_view token : {"$ORIGIN", "${ORIGIN}"})
    if (entry.starts_with(token)) return entry.size() == token.size() || entry[token.size()] == '/';
  return false;
}

}  // namespace

Linkage read_linkage(const ElfFile& file) {
  const std::vector<Elf64_Dyn> entries = dynamic_entries(file);
  const ElfFile::Strings strings = dynamic_strings(file, entries);
  Linkage linkage;
  for (const Elf64_Dyn& entry : entries) {
    const auto text = [&] { return file.text_at(strings, entry.d_un.d_val, "the names of needed libraries"); };
    if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_FILTER || entry.d_tag == DT_AUXILIARY)
      linkage.needed.push_back(text());
    if (entry.d_tag == DT_SONAME) linkage.soname = text();
    if (entry.d_tag == DT_RPATH) linkage.rpath = entries_of(text());
    if (entry.d_tag == DT_RUNPATH) linkage.runpath = entries_of(text());
    linkage.binds_now |= entry.d_tag == DT_BIND_NOW || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_BIND_NOW)) ||
                         (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_NOW));
  }
  return linkage;
}

void require_fixed_places(const Linkage& linkage) {
  for (const auto* paths : {&linkage.rpath, &linkage.runpath})
    for (const std::string& entry : *paths)
      if (!entry.starts_with('/') && !below_origin(entry))
        refuse(
            "expected library search paths that are absolute or begin with $ORIGIN, got \"{}\", which is looked for in "
            "the working directory; link it without",
            one_line(entry));
  for (const std::string& name : linkage.needed)
    if (name.find('/') != name.npos && !name.starts_with('/'))
      refuse(
          "expected needed libraries by name, got \"{}\", which is looked for in the working directory; link it by "
          "its name",
          one_line(name));
}

bool needs_torch(const Linkage& linkage) {
  return std::any_of(linkage.needed.begin(), linkage.needed.end(), [](const std::string& needed) {
    const std::string_view name = std::string_view(needed).substr(needed.rfind('/') + 1);  // npos + 1 is 0
    return name.starts_with("libtorch") || name.starts_with("libc10");
  });
}

Symbols read_symbols(const ElfFile& file) {
  Symbols symbols;
  const Elf64_Shdr* const table = file.find_section(SHT_DYNSYM);
  if (table == nullptr) return symbols;
  const Elf64_Shdr& strings = strings_of(file, *table);
  const auto versions = needed_versions(file);
  std::vector<Elf64_Half> version_of;
  if (const Elf64_Shdr* const section = file.find_section(SHT_GNU_versym))
    version_of = file.table<Elf64_Half>(*section, kMostSymbols, "the versions of symbols");
  const auto entries = file.table<Elf64_Sym>(*table, kMostSymbols, "the table of symbols");
  for (size_t i = 1; i < entries.size(); ++i) {
    const Elf64_Sym& symbol = entries[i];
    const unsigned binding = ELF64_ST_BIND(symbol.st_info), type = ELF64_ST_TYPE(symbol.st_info);
    if (binding == STB_LOCAL || type == STT_SECTION || symbol.st_name == 0) continue;
    std::string name = one_line(file.text_at(strings, symbol.st_name, "the names of symbols"));
    if (symbol.st_shndx == SHN_UNDEF) {
      constexpr Elf64_Half kHidden = 0x8000;
      const auto version =
          i < version_of.size() ? versions.find(static_cast<uint16_t>(version_of[i] & ~kHidden)) : versions.end();
      symbols.undefined.push_back(
          {std::move(name), version == versions.end() ? "" : version->second, binding == STB_WEAK});
    } else if (ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT ||
               ELF64_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED) {
      symbols.unique += binding == STB_GNU_UNIQUE;
      symbols.exported.push_back(std::move(name));
    }
  }
  return symbols;
}

}  // namespace lf
