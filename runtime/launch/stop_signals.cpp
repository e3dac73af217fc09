#include "launch/stop_signals.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

// A signal handler has no argument of its own: these are the process's, written by the handler alone.
std::atomic<int32_t> stop_flag{0};
std::atomic<int64_t> first_ms{0};
static_assert(std::atomic<int32_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void on_signal(int) { stop_flag.store(1); }

void on_signal_alone(int signal) {
  // A terminal and a parent, or srun and its step daemon, often deliver the same wish twice within milliseconds.
  constexpr int64_t kSameWishMs = 1000;
  const bool first = stop_flag.exchange(1) == 0;
  if (first)
    first_ms.store(now_ms());
  else if ((signal == SIGTERM || signal == SIGINT) && now_ms() - first_ms.load() >= kSameWishMs) {
    std::signal(signal, SIG_DFL);
    raise(signal);  // delivered when the handler returns
  }
}

pid_t starting = 0;  // whoever called end_at_stop_signals: a child of its has nothing to say

void on_signal_before_anything_began(int signal) {
  if (getpid() == starting) {  // all of it async-signal-safe
    std::signal(SIGPIPE, SIG_IGN);
    constexpr const char* kBefore = "lfrun: ";
    const char* name = sigabbrev_np(signal);
    constexpr const char* kAfter = ": stopped before anything had begun; the same command starts the run\n";
    for (const char* text : {kBefore, "SIG", name == nullptr ? "" : name, kAfter})
      (void)!write(STDERR_FILENO, text, std::strlen(text));
  }
  _exit(static_cast<int>(Exit::kSavedRunAgain));
}

void handle_stop_signals(const struct sigaction& action) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void end_at_stop_signals() {
  starting = getpid();
  struct sigaction action {};
  action.sa_handler = on_signal_before_anything_began;
  sigfillset(&action.sa_mask);
  handle_stop_signals(action);
}

void catch_stop_signals(Escalation escalation) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = escalation == Escalation::kByWorker ? on_signal_alone : on_signal;
  action.sa_flags = SA_RESTART;  // reads and writes of the step go on
  sigemptyset(&action.sa_mask);
  handle_stop_signals(action);
}

int32_t stop_requested() { return stop_flag.load(std::memory_order_relaxed); }

}  // namespace lf
