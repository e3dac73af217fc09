#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device_table.h"
#include "core/error.h"
#include "core/host.h"
#include "core/whole_file.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_api/model.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/device_choice.h"
#include "plugins/library.h"
#include "plugins/model_on_device.h"
#include "plugins/plugins.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

// What the child writes: the stages as they begin, then one of these two and a text.
constexpr char kAccepted = 'A', kRefused = 'R';
constexpr char kAsking = 'a';  // the stage after those of OpenStage
constexpr const char* kStages = "oeia";

// What is asked of an opened plugin in the child; its answer is the text.
using Question = std::function<std::string(const lf_plugin*)>;

[[noreturn]] void run_child(int out, const Candidate& candidate, const Question& question) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // so that what the plugin may start goes with it
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE})
    std::signal(signal, SIG_DFL);  // a crash is the parent's to tell
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // What a constructor or std::terminate prints would stand beside the one line that is to be read.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0)
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  try {
    const lf_plugin* plugin = open_plugin(candidate, [out](OpenStage stage) {
      write_all(out, {reinterpret_cast<const char*>(&stage), 1});
    });
    write_all(out, {&kAsking, 1});
    write_all(out, kAccepted + question(plugin));
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
  const size_t last = said.find_last_of(kStages);
  switch (last == std::string::npos ? 'o' : said[last]) {
    case 'e':
      return "in its entry";
    case 'i':
      return "in get_interface";
    case kAsking:
      return "while it looked for devices";
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

struct Answer {
  std::optional<std::string> refusal;
  std::string text;
  bool answered = false;  // it was asked: what refuses it is its answer, or that what it looked for never came
};

Answer ask_in_child(const Candidate& candidate, std::chrono::milliseconds limit, const Question& question) {
  if (candidate.refusal) return {candidate.refusal, ""};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::kUnavailable, "no pipe for probing plugins: {}", std::strerror(errno));
  const Clock::time_point deadline = Clock::now() + limit;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(ends[1], candidate, question);
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
  const size_t end = said.find_first_not_of(kStages);
  const bool opened = said.substr(0, end).find(kAsking) != std::string::npos;
  if (ended == 0) {
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return {fmt::format("did not answer within {} s {}; it waits for something that is not there",
                        limit.count() / 1000.0, stage_text(said)),
            "", opened};
  }
  const char verdict = end == std::string::npos ? '\0' : said[end];
  if (verdict == kRefused) return {one_line(said.substr(end + 1)), "", opened};
  if (WIFSIGNALED(status))
    return {fmt::format("crashed on probe ({}) {}", signal_text(WTERMSIG(status)), stage_text(said)), ""};
  if (verdict != kAccepted)
    return {fmt::format("ended the process with code {} on probe {}", WEXITSTATUS(status), stage_text(said)), ""};
  return {std::nullopt, said.substr(end + 1), opened};
}

struct Opened {
  bool host = false;
  uint64_t memory_bytes = 0;
  int32_t torch_mode = LF_TORCH_NONE;
};

// One that cannot be opened is no card either; whoever loads it says what it lacks.
Opened open_one(const lf_device_api* api) {
  if (!LF_HAS(api, open) || !LF_HAS(api, info)) return {.host = true};
  lf_err err = sdk::make_err();
  lf_device device = nullptr;
  if (api->open(0, &device, &err) != LF_OK) refuse("open: {}", err.message);
  auto info = sdk::with_header<lf_device_info>();
  if (api->info(device, &info, &err) != LF_OK) refuse("info: {}", err.message);
  if (LF_HAS(api, close)) api->close(device, &err);
  return {.host = info.uid == 0, .memory_bytes = info.memory_bytes, .torch_mode = info.torch_mode};
}

// "COUNT HOST BYTES TORCH_MODE REASON".
std::string look_for_devices(const lf_plugin* plugin, uint32_t workers, DeviceLook look) {
  const auto* api = static_cast<const lf_device_api*>(plugin->get_interface(sdk::str(LF_DEVICE_INTERFACE)));
  if (!LF_HAS(api, probe)) refuse("expected interface {} with probe, got none", LF_DEVICE_INTERFACE);
  if (const std::string missing = missing_functions(api); look == DeviceLook::kOpenOne && !missing.empty())
    refuse("its {} table lacks {}", LF_DEVICE_INTERFACE, missing);
  Host host;
  lf_err err = sdk::make_err();
  if (plugin->start(host.table(), &err) != LF_OK) refuse("start: {}", err.message);
  uint32_t count = 0;
  std::string reason;
  if (api->probe(&count, sdk::string_sink(reason), &err) != LF_OK) refuse("probe: {}", err.message);
  const bool may_be_shared = count == 1 && count < workers;
  const Opened one = count > 0 && (may_be_shared || look == DeviceLook::kOpenOne) ? open_one(api) : Opened{};
  return fmt::format("{} {:d} {} {} {}", count, one.host, one.memory_bytes, one.torch_mode, reason);
}

std::string abilities_of_model(const lf_plugin* plugin) {
  const auto* api = static_cast<const lf_model_api*>(plugin->get_interface(sdk::str(LF_MODEL_INTERFACE)));
  return fmt::format("{}", LF_HAS(api, abilities) ? api->abilities : 0);
}

}  // namespace

std::optional<std::string> probe_plugin(const Candidate& candidate, std::chrono::milliseconds limit) {
  return ask_in_child(candidate, limit, [](const lf_plugin*) { return std::string(); }).refusal;
}

ModelSurvey survey_model(const Candidate& candidate, std::chrono::milliseconds limit) {
  const Answer answer = ask_in_child(candidate, limit, abilities_of_model);
  ModelSurvey survey{.refusal = answer.refusal};
  if (!answer.refusal) std::istringstream(answer.text) >> survey.abilities;
  return survey;
}

DeviceSurvey survey_device(const Candidate& candidate, std::chrono::milliseconds limit, uint32_t workers,
                           DeviceLook look) {
  const Answer answer = ask_in_child(
      candidate, limit, [workers, look](const lf_plugin* plugin) { return look_for_devices(plugin, workers, look); });
  if (answer.refusal) return {.refused = !answer.answered, .reason = *answer.refusal};
  DeviceSurvey survey;
  std::istringstream text(answer.text);
  text >> survey.count >> survey.host >> survey.memory_bytes >> survey.torch_mode;
  text.get();
  std::getline(text, survey.reason, '\0');
  survey.reason = one_line(survey.reason);
  return survey;
}

}  // namespace lf
