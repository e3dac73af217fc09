#include "launch/workers.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "launch/stop_signals.h"
#include "launch/store_server.h"
#include "launch/worker_log.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSavedRunAgain = static_cast<int>(Exit::kSavedRunAgain);
constexpr int kPeerGone = static_cast<int>(Exit::kUnavailable);

struct Worker {
  pid_t pid = -1;
  bool alive = true;
  int status = 0;  // of waitpid
  Clock::time_point ended{};
  uintmax_t log_bytes = 0, stderr_bytes = 0;  // before this run

  bool died() const {
    return !alive && (WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kSavedRunAgain));
  }
  int exit_code() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
};

// The signals of the launcher as a descriptor; the process's own mask comes back at the end.
class Signals {
 public:
  Signals() {
    sigemptyset(&wanted_);
    std::signal(SIGCHLD, SIG_DFL);  // ignored by a careless parent, children would vanish without a status
    std::signal(SIGPIPE, SIG_IGN);  // Ctrl-C ends the `tee` behind us too; what is told then may not end the workers
    std::signal(SIGXFSZ, SIG_IGN);  // nor may a limit on the size of files
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
      struct sigaction before {};
      sigaction(signal, nullptr, &before);
      if (before.sa_handler != SIG_IGN) sigaddset(&wanted_, signal);  // one that is ignored stays so (nohup)
    }
    sigprocmask(SIG_BLOCK, &wanted_, &before_);
    fd_ = signalfd(-1, &wanted_, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) fail(Exit::kUnavailable, "no descriptor for signals: {}", std::strerror(errno));
  }
  ~Signals() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  void restore_in_child() const {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  std::optional<int> next() const {
    signalfd_siginfo info{};
    if (read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t wanted_, before_;
  int fd_ = -1;
};

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

// A child has only the thread that forked it: locks and pools of the others are dead in it, and it would hang at its
// first parallel operator.
void require_one_thread() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  const auto n = std::distance(begin(threads), end(threads));
  if (n != 1)
    fail(Exit::kBug,
         "expected one thread before workers are forked, got {}: the core, or a library it opened, starts threads "
         "while it is opened",
         n);
}

class Watch {
 public:
  Watch(const WorkerPlan& plan, const std::function<int(int, const std::string&)>& worker)
      : plan_(plan), worker_(worker) {}

  int run() {
    require_one_thread();
    for (int rank = 0; rank < plan_.processes; ++rank) start(rank);
    while (alive() > 0) {
      pollfd waiting[] = {{signals_.fd(), POLLIN, 0}, {store_.event_fd(), POLLIN, 0}};
      if (poll(waiting, 2, poll_limit_ms()) < 0 && errno != EINTR)
        fail(Exit::kBug, "watching the workers failed: {}", std::strerror(errno));
      while (const auto signal = signals_.next()) {
        if (*signal == SIGCHLD)
          collect();
        else
          on_stop(*signal);
      }
      store_.serve();
      if (settle_until_ && !settled_ && Clock::now() >= *settle_until_) {
        settled_ = true;
        kill_all(SIGKILL);
      }
    }
    return result();
  }

 private:
  void start(int rank) {
    Worker worker;
    worker.log_bytes = size_or_zero(log_file(plan_.log_folder, rank));
    worker.stderr_bytes = size_or_zero(stderr_file(plan_.log_folder, rank));
    std::fflush(nullptr);  // or the child would print it again
    const pid_t parent = getpid();
    worker.pid = fork();
    if (worker.pid == 0) run_child(rank, parent);
    if (worker.pid < 0) {
      const std::string reason = std::strerror(errno);
      kill_all(SIGKILL);
      for (Worker& started : workers_) waitpid(started.pid, nullptr, 0);
      fail(Exit::kUnavailable, "worker {} of {} cannot be started: {}", rank, plan_.processes, reason);
    }
    workers_.push_back(worker);
  }

  [[noreturn]] void run_child(int rank, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kPeerGone);  // it died before the line above
    const std::string store = "unix:" + store_.path().string();
    store_.close_in_child();
    // Caught before they are let through: a stop that came while we were being forked is not lost.
    catch_stop_signals(Escalation::kByParent);
    signals_.restore_in_child();
    int code = static_cast<int>(Exit::kBug);
    try {
      if (rank > 0) redirect_output(plan_.log_folder, rank);
      code = worker_(rank, store);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = static_cast<int>(error.exit());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: internal error: %s\n", rank, error.what());
    }
    std::fflush(nullptr);
    _exit(code);  // no destructor of a vendor's library runs in a half torn-down process
  }

  size_t alive() const {
    size_t n = 0;
    for (const Worker& worker : workers_) n += worker.alive;
    return n;
  }

  void kill_all(int signal) const {
    for (const Worker& worker : workers_)
      if (worker.alive) kill(worker.pid, signal);
  }

  int poll_limit_ms() const {
    int limit = store_.wait_limit_ms();
    if (settle_until_ && !settled_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*settle_until_ - Clock::now()).count();
      const int settle = static_cast<int>(std::max<int64_t>(left, 0));
      limit = limit < 0 ? settle : std::min(limit, settle);
    }
    return limit;
  }

  void collect() {
    for (Worker& worker : workers_) {
      if (!worker.alive || waitpid(worker.pid, &worker.status, WNOHANG) != worker.pid) continue;
      worker.alive = false;
      worker.ended = Clock::now();
      if (worker.died() && !settle_until_) settle_until_ = worker.ended + plan_.settle;
    }
  }

  void on_stop(int signal) {
    if (stop_signal_ == 0) {
      stop_signal_ = signal;
      kill_all(SIGTERM);
      plan_.tell(fmt::format("{}: finishing the step and saving; {} once more stops at once", signal_name(signal),
                             signal == SIGTERM ? "SIGTERM" : "Ctrl-C"));
    } else if (signal == SIGTERM || signal == SIGINT) {
      stopped_at_once_ = signal;
      kill_all(SIGKILL);
    }
  }

  int result() {
    if (stopped_at_once_ != 0) {
      plan_.tell(fmt::format("stopped without saving; {} goes on from the last checkpoint", plan_.go_on));
      failed("stopped without saving", false);
      return 128 + stopped_at_once_;
    }
    if (const auto rank = first_to_die()) {
      tell_death(*rank);
      for (size_t other = 0; other < workers_.size(); ++other)
        if (other != *rank && workers_[other].died() && !killed_by_us(workers_[other])) tell_death_after(other, *rank);
      return workers_[*rank].exit_code();
    }
    for (const Worker& worker : workers_)
      if (worker.exit_code() == kSavedRunAgain) return kSavedRunAgain;
    return 0;
  }

  bool killed_by_us(const Worker& worker) const { return settle_until_ && worker.ended >= *settle_until_; }

  // Where several died, peers that only noticed (69) and those that we killed after the settling come last.
  std::optional<size_t> first_to_die() const {
    std::optional<size_t> first;
    const auto merit = [&](const Worker& worker) {
      if (killed_by_us(worker)) return 0;
      return worker.exit_code() == kPeerGone ? 1 : 2;
    };
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      const Worker& worker = workers_[rank];
      if (!worker.died()) continue;
      if (!first || merit(worker) > merit(workers_[*first]) ||
          (merit(worker) == merit(workers_[*first]) && worker.ended < workers_[*first].ended))
        first = rank;
    }
    return first;
  }

  void failed(const std::string& state, bool not_the_leaders) const {
    if (plan_.on_failure) plan_.on_failure({workers_[0].pid, not_the_leaders, state});
  }

  void tell_death(size_t rank) {
    constexpr size_t kLines = 20;
    const Worker& worker = workers_[rank];
    const bool by_signal = WIFSIGNALED(worker.status);
    const std::string how = how_it_ended(worker);
    plan_.tell(fmt::format("rank {} of {} (process {}) {}; the job stops", rank, workers_.size(), worker.pid, how));
    failed(fmt::format("failed: rank {} of {} {}", rank, workers_.size(), how), rank > 0);
    const int number = static_cast<int>(rank);
    // What rank 0 had to say is on the terminal already, unless a signal cut it short.
    if (rank > 0 || by_signal) show(log_file(plan_.log_folder, number), worker.log_bytes, kLines);
    if (rank > 0) show(stderr_file(plan_.log_folder, number), worker.stderr_bytes, kLines);
  }

  static std::string how_it_ended(const Worker& worker) {
    if (!WIFSIGNALED(worker.status)) return fmt::format("ended with exit code {}", WEXITSTATUS(worker.status));
    std::string how = fmt::format("was killed by {}", signal_name(WTERMSIG(worker.status)));
    if (WTERMSIG(worker.status) == SIGKILL) how += " (if nobody did that: was the host out of memory?)";
    return how;
  }

  // Another that failed by itself: it may know more than the first, or have another reason.
  void tell_death_after(size_t rank, size_t first) {
    constexpr size_t kLines = 3;
    const Worker& worker = workers_[rank];
    const std::string words = WIFSIGNALED(worker.status) ? "" : last_words(rank);
    const bool same = !words.empty() && words == last_words(first);
    plan_.tell(fmt::format("rank {} of {} (process {}) {} as well{}", rank, workers_.size(), worker.pid,
                           how_it_ended(worker), same ? ", with the same words" : ""));
    if (same || rank == 0) return;  // what rank 0 had to say is on the terminal already
    const int number = static_cast<int>(rank);
    show(log_file(plan_.log_folder, number), worker.log_bytes, kLines);
    show(stderr_file(plan_.log_folder, number), worker.stderr_bytes, kLines);
  }

  // The last line that it logged or else wrote, less the time of it.
  std::string last_words(size_t rank) const {
    const int number = static_cast<int>(rank);
    auto lines = last_lines(log_file(plan_.log_folder, number), workers_[rank].log_bytes, 1);
    if (lines.empty()) lines = last_lines(stderr_file(plan_.log_folder, number), workers_[rank].stderr_bytes, 1);
    if (lines.empty()) return "";
    constexpr size_t kDate = 10;  // 2026-01-31, and the time after a T
    std::string line = lines.front();
    if (line.size() > kDate && line[kDate] == 'T') line.erase(0, line.find(' '));
    return line;
  }

  void show(const std::filesystem::path& file, uintmax_t from, size_t lines) {
    const auto last = last_lines(file, from, lines);
    if (last.empty()) return;
    plan_.tell(fmt::format("the last lines of {}:", file.string()));
    for (const std::string& line : last) plan_.tell("| " + line);
  }

  const WorkerPlan& plan_;
  const std::function<int(int, const std::string&)>& worker_;
  Signals signals_;
  StoreServer store_;
  std::vector<Worker> workers_;
  std::optional<Clock::time_point> settle_until_;
  bool settled_ = false;
  int stop_signal_ = 0, stopped_at_once_ = 0;
};

}  // namespace

int run_workers(const WorkerPlan& plan, const std::function<int(int rank, const std::string& store)>& worker) {
  return Watch(plan, worker).run();
}

}  // namespace lf
