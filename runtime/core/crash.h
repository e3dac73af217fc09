// What a process says before a crash ends it: in whose code it happened, so that a fault of a plugin is not taken for
// lfrun's.
#pragma once

namespace lf {

// From here on SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and SIGABRT of this process write a few lines to stderr: the
// signal, the file whose code ran, the plugin that had called it, and the frames as FILE+OFFSET (for addr2line). Then
// the signal ends the process as it would have. Under a sanitizer nothing changes: it tells more. [before threads]
void tell_crashes();

}  // namespace lf
