// Three generations: the caller; a child that opens the plugin; and from it one process per case, so that a case finds
// the plugin fresh and can do no harm to the next one.
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/bench.h"
#include "core/error.h"
#include "core/whole_file.h"
#include "lf/plugin_api/collective.h"
#include "plugins/library.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

using kit::Bench;
using kit::Case;
using Clock = std::chrono::steady_clock;

constexpr char kPassed = 'p', kSkipped = 's', kFailed = 'f', kNotTried = 'n';
constexpr int kMostSilences = 3;

std::vector<Case> cases_for(const Candidate& candidate, const std::string& only) {
  std::vector<Case> all = kit::common_cases();
  const auto add = [&](std::vector<Case> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  switch (candidate.manifest->kind) {
    case PluginKind::kDevice: {
      add(kit::device_cases());
      const auto& offered = candidate.manifest->interfaces;
      if (std::find(offered.begin(), offered.end(), LF_COLLECTIVE_INTERFACE) != offered.end())
        add(kit::collective_cases());
      break;
    }
    case PluginKind::kModel:
      add(kit::model_cases());
      break;
    case PluginKind::kBalancer:
      add(kit::balancer_cases());
      break;
  }
  std::erase_if(all, [&](const Case& c) { return c.name.find(only) == c.name.npos; });
  return all;
}

void restrain(bool own_group) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (own_group) setpgid(0, 0);  // so that what the plugin may start goes with it
  const rlimit no_core{0, 0}, files{1024, 1024};
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_NOFILE, &files);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE})
    std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// What the plugin prints would stand between the lines of the report.
void silence() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  close(null);
}

[[noreturn]] void run_case(const Case& one, Bench& bench, Breadcrumb& crumb) {
  restrain(true);
  try {
    one.run(bench);
    bench.stop();
    crumb.say(kPassed, "");
  } catch (const kit::Skip& skip) {
    crumb.say(kSkipped, one_line(skip.what()));
  } catch (const kit::Broken& broken) {
    crumb.say(kFailed, one_line(broken.what()));
  } catch (const std::exception& error) {
    crumb.say(kFailed, fmt::format("the kit itself: {}", one_line(error.what())));
  }
  _exit(0);
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {}, SIG{}", signal, name);
}

// Waits for the case's process and says how it ended; `silences` counts those that did not end by themselves.
CaseResult wait_for(pid_t child, const Case& one, std::chrono::milliseconds limit, const Breadcrumb& crumb,
                    int& silences) {
  CaseResult result{one.name, Outcome::kFailed, ""};
  const Clock::time_point deadline = Clock::now() + limit;
  int status = 0;
  pid_t ended = 0;
  for (useconds_t nap = 50; Clock::now() < deadline && (ended = waitpid(child, &status, WNOHANG)) == 0;
       nap = std::min<useconds_t>(nap * 2, 5000))
    usleep(nap);
  const bool late = ended == 0;
  if (late) {
    ++silences;
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  const std::string function = crumb.function();
  const std::string place = function.empty() ? "outside of any call" : "in " + function;
  if (crumb.verdict() == kPassed && !late && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    result.outcome = Outcome::kPassed;
  else if (late)
    result.detail = fmt::format("did not return within {} s {}", limit.count() / 1000.0, place);
  else if (WIFSIGNALED(status))
    result.detail = fmt::format("crashed {} ({})", place, signal_text(WTERMSIG(status)));
  else if (crumb.verdict() == 0)
    result.detail = fmt::format("ended the process with code {} {}", WEXITSTATUS(status), place);
  else {
    result.outcome = crumb.verdict() == kSkipped ? Outcome::kSkipped : Outcome::kFailed;
    result.detail = crumb.detail();
  }
  return result;
}

// One line per result on the pipe: outcome, name, tab, detail; '!' and a text where nothing could be tried.
[[noreturn]] void run_all(int out, const Candidate& candidate, const KitOptions& options, Breadcrumb& crumb) {
  restrain(true);
  setenv("OMP_NUM_THREADS", "1", 1);  // what is tried is small, and a thread that was forked is no thread
  silence();
  try {
    crumb.enter("opening the file");
    const lf_plugin* plugin = open_plugin(candidate, [&](OpenStage stage) {
      if (stage == OpenStage::kEntry) crumb.enter("lf_plugin_entry");
      if (stage == OpenStage::kInterfaces) crumb.enter("lf_plugin.get_interface");
    });
    int silences = 0;
    for (const Case& one : cases_for(candidate, options.only)) {
      if (silences == kMostSilences) {
        write_all(out,
                  fmt::format("{}{}\tnot tried, as {} before them did not return\n", kNotTried, one.name, silences));
        continue;
      }
      crumb.clear();
      const pid_t child = fork();
      if (child == 0) {
        close(out);
        Bench bench(plugin, *candidate.manifest, options, crumb);
        run_case(one, bench, crumb);
      }
      if (child < 0) {
        write_all(out, fmt::format("!no process for a case: {}\n", std::strerror(errno)));
        break;
      }
      const CaseResult result = wait_for(child, one, options.case_limit, crumb, silences);
      const char mark = result.outcome == Outcome::kPassed    ? kPassed
                        : result.outcome == Outcome::kSkipped ? kSkipped
                                                              : kFailed;
      write_all(out, fmt::format("{}{}\t{}\n", mark, result.name, one_line(result.detail)));
    }
  } catch (const std::exception& error) {
    write_all(out, fmt::format("!{}\n", one_line(error.what())));
  }
  _exit(0);
}

std::string read_all(int fd) {
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(block, static_cast<size_t>(n));
  }
}

void read_line(std::string_view line, KitReport& report) {
  if (line.empty()) return;
  if (line[0] == '!') {
    report.refusal = line.substr(1);
    return;
  }
  const size_t tab = line.find('\t');
  CaseResult result;
  result.name = line.substr(1, tab - 1);
  if (tab != line.npos) result.detail = line.substr(tab + 1);
  result.outcome = line[0] == kPassed     ? Outcome::kPassed
                   : line[0] == kSkipped  ? Outcome::kSkipped
                   : line[0] == kNotTried ? Outcome::kNotTried
                                          : Outcome::kFailed;
  report.cases.push_back(std::move(result));
}

// Told once, instead of by every case that reads it.
void require_case(const std::filesystem::path& folder) {
  constexpr std::string_view kNeeded = "expected a folder with config.json and samples.jsonl";
  std::error_code error;
  if (!std::filesystem::exists(folder, error))
    fail(exit_of_unreadable(error ? error.value() : ENOENT), "--case: {} {}; {}", folder.string(),
         error ? "cannot be read: " + error.message() : "does not exist", kNeeded);
  if (!std::filesystem::is_directory(folder, error))
    fail(Exit::kInputMissing, "--case: {} is not a folder; {}", folder.string(), kNeeded);
  for (const char* file : {"config.json", "samples.jsonl"})
    if (!std::filesystem::is_regular_file(folder / file, error))
      fail(Exit::kInputMissing, "--case: {} has no file {}; {}", folder.string(), file, kNeeded);
}

}  // namespace

size_t KitReport::count(Outcome outcome) const {
  return static_cast<size_t>(
      std::count_if(cases.begin(), cases.end(), [&](const CaseResult& c) { return c.outcome == outcome; }));
}

KitReport run_conformance(const Candidate& candidate, const KitOptions& options) {
  if (!options.case_folder.empty()) require_case(options.case_folder);
  KitReport report;
  // What does not even load is told as loading would tell it; a file that hangs there would hang the kit too.
  if (const auto reason = probe_plugin(candidate, options.case_limit)) {
    report.refusal = *reason;
    return report;
  }
  Breadcrumb crumb;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::kUnavailable, "no pipe for trying plugins: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_all(ends[1], candidate, options, crumb);
  }
  const int reason = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail(Exit::kUnavailable, "no process for trying plugins: {}", std::strerror(reason));
  }
  const std::string said = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  for (size_t at = 0; at < said.size();) {
    const size_t end = std::min(said.find('\n', at), said.size());
    read_line(std::string_view(said).substr(at, end - at), report);
    at = end + 1;
  }
  if (WIFSIGNALED(status))
    report.refusal = fmt::format("crashed in {} ({})", crumb.function(), signal_text(WTERMSIG(status)));
  else if (report.cases.empty() && report.refusal.empty())
    report.refusal = options.only.empty() ? "the child that was to try it ended early"
                                          : fmt::format("no case has \"{}\" in its name", options.only);
  return report;
}

}  // namespace lf
