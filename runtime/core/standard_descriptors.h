// What a process may rely on before it opens anything: that descriptors 0, 1 and 2 are taken.
#pragma once

namespace lf {

// Opens /dev/null on those of the three that the process was started without (`lfrun job.toml 2>&-`). Else a pipe or a
// file of ours would get their numbers, and what is printed, or a child's own /dev/null, would go into it. Output that
// was closed stays unwritable, so that a command whose result is printed still fails (EBADF). First in main.
void fill_standard_descriptors();

}  // namespace lf
