// The texts of a plugin's notes out of its file, by reading alone: no code of the file runs and nothing is mapped.
#pragma once

#include <string>

#include "plugins/elf_file.h"

namespace lf {

// Throws Refusal unless the file has one note "lfplug" of type 1 in section .note.lfplugin. The text ends at its first
// NUL.
std::string read_plugin_note(const ElfFile& file);

// What its C++ was compiled as (LF_COMPILER_ABI in lf/plugin_api/entry.h); empty where the file has no such note, as
// those of before it was thought of. Throws Refusal where the note is damaged.
std::string read_compiler_note(const ElfFile& file);

}  // namespace lf
