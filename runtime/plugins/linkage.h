// How a shared object is linked, from its dynamic section and symbol table: read, never run.
#pragma once

#include <string>
#include <vector>

#include "plugins/elf_file.h"

namespace lf {

// Texts are whole and as they stand in the file, since they decide what is loaded; one_line() is for whoever prints
// them.
struct Linkage {
  std::string soname;
  std::vector<std::string> needed;          // DT_NEEDED in order, and what DT_FILTER and DT_AUXILIARY load besides
  std::vector<std::string> rpath, runpath;  // entries as written, "$ORIGIN/.." included
  bool binds_now = false;                   // all symbols resolved at load
};

// What the dynamic linker would find, by way of the segments. Throws Refusal where it cannot be read.
Linkage read_linkage(const ElfFile& file);

// Throws Refusal where loading would look into the folder that lfrun happens to run in: an entry of RPATH or RUNPATH
// that is neither absolute nor below $ORIGIN, or a needed library with a relative path.
void require_fixed_places(const Linkage& linkage);

bool needs_torch(const Linkage& linkage);  // libtorch*.so or libc10*.so

struct Symbols {
  struct Undefined {
    std::string name, version;  // version: "GLIBC_2.34", or empty
    bool weak = false;          // may stay undefined
  };
  std::vector<std::string> exported;
  std::vector<Undefined> undefined;
  size_t unique = 0;  // STB_GNU_UNIQUE: one in the whole process, whoever defines it
};

// Throws Refusal where the symbol table cannot be read.
Symbols read_symbols(const ElfFile& file);

}  // namespace lf
