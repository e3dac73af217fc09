#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "plugins/library.h"
#include "plugins/plugins.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

// What the child writes: the stages as they begin, then one of these two; text follows a refusal.
constexpr char kAccepted = 'A', kRefused = 'R';

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the parent is gone or has lost interest
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

[[noreturn]] void run_child(int out, const Candidate& candidate) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // so that what the plugin may start goes with it
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGPIPE})
    std::signal(signal, SIG_DFL);  // a crash is the parent's to tell
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // What a constructor or std::terminate prints would stand beside the one line that is to be read.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0)
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  try {
    open_plugin(candidate, [out](OpenStage stage) { write_all(out, {reinterpret_cast<const char*>(&stage), 1}); });
    write_all(out, {&kAccepted, 1});
  } catch (const Refusal& refusal) {
    write_all(out, kRefused + std::string(refusal.what()));
  } catch (const std::exception& error) {
    write_all(out, kRefused + fmt::format("threw an exception on probe: {}", one_line(error.what())));
  } catch (...) {
    write_all(out, kRefused + std::string("threw an exception on probe that is no std::exception"));
  }
  _exit(0);
}

const char* stage_text(const std::string& said) {
  const size_t last = said.find_last_of("oei");
  switch (last == std::string::npos ? 'o' : said[last]) {
    case 'e':
      return "in its entry";
    case 'i':
      return "in get_interface";
    default:
      return "while it was being opened";
  }
}

// Everything the child says until it closes the pipe; false: it did not within the limit.
bool read_until_closed(int fd, Clock::time_point deadline, std::string& said) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char block[1024];
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    constexpr size_t kMost = 16 << 10;
    if (said.size() < kMost) said.append(block, static_cast<size_t>(n));
  }
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {}, SIG{}", signal, name);
}

}  // namespace

std::optional<std::string> probe_plugin(const Candidate& candidate, std::chrono::milliseconds limit) {
  if (candidate.refusal) return candidate.refusal;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::kUnavailable, "no pipe for probing plugins: {}", std::strerror(errno));
  const Clock::time_point deadline = Clock::now() + limit;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(ends[1], candidate);
  }
  const int reason = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail(Exit::kUnavailable, "no process for probing plugins: {}", std::strerror(reason));
  }
  std::string said;
  const bool closed = read_until_closed(ends[0], deadline, said);
  close(ends[0]);
  // Closed: the child is at its end, or the plugin closed our pipe, which nothing honest does. Either way it goes now.
  int status = 0;
  pid_t ended = 0;
  if (closed)
    while (Clock::now() < deadline && (ended = waitpid(child, &status, WNOHANG)) == 0) usleep(200);
  if (ended == 0) {
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return fmt::format("did not answer within {} s {}; it waits for something that is not there",
                       limit.count() / 1000.0, stage_text(said));
  }
  if (const size_t text = said.find(kRefused); text != std::string::npos) return one_line(said.substr(text + 1));
  if (WIFSIGNALED(status))
    return fmt::format("crashed on probe ({}) {}", signal_text(WTERMSIG(status)), stage_text(said));
  if (said.find(kAccepted) == std::string::npos)
    return fmt::format("ended the process with code {} on probe {}", WEXITSTATUS(status), stage_text(said));
  return std::nullopt;
}

}  // namespace lf
