// The level of x86-64 (psABI, "micro-architecture levels") that a shared object was compiled for, by reading alone. One
// for a newer processor than this would load, and die of an illegal instruction in the middle of training.
#pragma once

#include "plugins/elf_file.h"

namespace lf {

// 1 to 4: baseline, v2, v3, v4. As the linker noted it (GNU_PROPERTY_X86_ISA_1_NEEDED), which GCC states with -mneeded
// (lf_add_plugin); 0: not stated. Throws Refusal where the note is damaged.
int needed_x86_level(const ElfFile& file);

// Of the processor that this runs on.
int x86_level_here();

// Throws Refusal where the file needs a later level than `here`.
void require_processor(const ElfFile& file, int here);

}  // namespace lf
