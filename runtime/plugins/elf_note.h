// The manifest's text out of a shared object, by reading alone: no code of the file runs and nothing is mapped.
#pragma once

#include <string>

#include "plugins/elf_file.h"

namespace lf {

// Throws Refusal unless the file has one note "lfplug" of type 1 in section .note.lfplugin. The text ends at its first
// NUL.
std::string read_plugin_note(const ElfFile& file);

}  // namespace lf
