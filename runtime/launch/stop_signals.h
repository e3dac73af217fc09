// A worker's half of stopping in good order: signals become a flag that the core reads once a step.
#pragma once

#include <cstdint>

namespace lf {

enum class Escalation {
  kByParent,  // the launcher forwards the first signal and kills at the second
  kByWorker   // nobody stands above: a second SIGTERM or SIGINT, at least a second later, ends the process at once
};

// SIGTERM, SIGINT, SIGUSR1 and SIGHUP set the flag. A signal that was ignored stays so (nohup). SIGPIPE is ignored:
// Gloo writes to a peer's closed socket without MSG_NOSIGNAL, and an error is what it must see. SIGXFSZ too: a file
// that reaches a limit (ulimit -f) is an error of its write. Call once, before threads.
void catch_stop_signals(Escalation escalation);

// From the start of a run until catch_stop_signals, or until the launcher watches its workers: the first such signal
// ends the process with kSavedRunAgain and one line that says that nothing has begun. One that was ignored stays so.
void end_at_stop_signals();

// For lf_core_request.stop_requested: 1 after the first signal.
int32_t stop_requested();

}  // namespace lf
