#include "vendor/mangled_names.h"

#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>

#include <elf.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::kunlun {
namespace {

class Image {
 public:
  explicit Image(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  template <typename T>
  T read(uint64_t at) const {
    T value;
    if (at > bytes_.size() || sizeof value > bytes_.size() - at) refuse();
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  std::string text(uint64_t at) const {
    const size_t end = at < bytes_.size() ? bytes_.find('\0', at) : bytes_.npos;
    if (end == bytes_.npos) refuse();
    return bytes_.substr(at, end - at);
  }

  [[noreturn]] void refuse() const {
    throw sdk::Failure(LF_E_UNSUPPORTED, path_.string() + ": expected an ELF64 library with a symbol table");
  }

 private:
  std::filesystem::path path_;
  std::string bytes_;
};

// Takes "<length><name>" off the front; empty where there is none.
std::string_view take_name(std::string_view& rest) {
  size_t length = 0, digits = 0;
  while (digits < rest.size() && digits < 4 && std::isdigit(static_cast<unsigned char>(rest[digits])))
    length = length * 10 + (rest[digits++] - '0');
  if (digits == 0 || length > rest.size() - digits) return {};
  const std::string_view name = rest.substr(digits, length);
  rest.remove_prefix(digits + length);
  return name;
}

}  // namespace

std::vector<std::string> exported_functions(const std::filesystem::path& library) {
  const Image image(library);
  const auto header = image.read<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) image.refuse();
  const auto section = [&](uint64_t i) { return image.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)); };
  std::vector<std::string> names;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr strings = section(symbols.sh_link);
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = image.read<Elf64_Sym>(symbols.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
        names.push_back(image.text(strings.sh_offset + symbol.st_name));
    }
  }
  return names;
}

bool names_function(std::string_view mangled, std::string_view plain) {
  if (!mangled.starts_with("_Z")) return false;
  std::string_view rest = mangled.substr(2);
  if (!rest.starts_with('N')) return take_name(rest) == plain;
  rest.remove_prefix(1);
  std::string_view last;
  for (std::string_view name = take_name(rest); !name.empty(); name = take_name(rest)) last = name;
  return last == plain && rest.starts_with('E');
}

std::optional<std::string> find_mangled(const std::vector<std::string>& exported, std::string_view plain) {
  std::optional<std::string> found;
  for (const std::string& name : exported) {
    if (!names_function(name, plain) || found == name) continue;
    if (found)
      throw sdk::Failure(LF_E_UNSUPPORTED,
                         std::string(plain) + " could be " + *found + " or " + name + "; build the shim, which knows");
    found = name;
  }
  return found;
}

}  // namespace lf::kunlun
