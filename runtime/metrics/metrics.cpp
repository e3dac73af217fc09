#include "metrics/metrics.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "metrics/curves.h"
#include "metrics/events.h"
#include "metrics/history.h"
#include "metrics/pace.h"
#include "metrics/run_file.h"
#include "metrics/status.h"

namespace lf {
namespace {

constexpr size_t kQueue = 1024;             // reports: minutes of the fastest steps
constexpr double kStatusSeconds = 1;        // between two status.json
constexpr std::chrono::seconds kDrain{20};  // for a last write to a disk that does not answer

// One file's health: the first failure is a warning, the others are counted, and a recovery is told.
class Sink {
 public:
  explicit Sink(const char* name) : name_(name) {}
  template <typename Write>
  void attempt(const Write& write) noexcept {
    try {
      write();
      if (failures_ > 0) log::info("{} is written again; {} writes were lost", name_, failures_);
      failures_ = 0;
    } catch (const std::exception& error) {
      if (failures_++ == 0) log::warning("{}; training goes on, {} misses what is not written", error.what(), name_);
    }
  }

 private:
  const char* name_;
  int64_t failures_ = 0;
};

}  // namespace

// Shared with the writing thread, which may outlive the object when a disk hangs.
struct Metrics::State {
  explicit State(MetricsConfig with)
      : config(std::move(with)),
        history(config.folder / "metrics.jsonl", config.finished_steps),
        progress(config.progress) {
    if (config.tensorboard) {
      events.emplace(config.folder / "tb", config.start_unix_seconds, config.finished_steps + 1);
    }
    replace_in_run(config.folder / "status.json",
                   status_json("running", std::nullopt, std::nullopt, config.start_unix_seconds));
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !queue.empty() || ending; });
      if (queue.empty()) break;
      const StepReport report = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      put(report);
      lock.lock();
    }
    const std::string state = end_state;
    lock.unlock();
    put_end(state);
    lock.lock();
    ended = true;
    changed.notify_all();
  }

  void put(const StepReport& report) {
    pace.add(report);
    history_sink.attempt([&] { history.append(report); });
    if (events) events_sink.attempt([&] { events->append(report); });
    progress.show(report, pace.left_seconds());
    last = report;
    if (report.elapsed_seconds - status_at < kStatusSeconds) return;
    status_at = report.elapsed_seconds;
    put_status("running");
  }

  void put_status(const std::string& state) {
    const double now = last ? last->unix_seconds : config.start_unix_seconds;
    status_sink.attempt(
        [&] { replace_in_run(config.folder / "status.json", status_json(state, last, pace.left_seconds(), now)); });
  }

  void put_end(const std::string& state) {
    progress.end();
    put_status(state);
    if (history.curve().empty()) return;
    curves_sink.attempt(
        [&] { replace_in_run(config.folder / "curves.svg", curves_svg(config.title, history.curve())); });
  }

  const MetricsConfig config;
  History history;
  std::optional<EventsFile> events;
  Progress progress;
  Pace pace;
  Sink history_sink{"metrics.jsonl"}, events_sink{"the TensorBoard file"}, status_sink{"status.json"},
      curves_sink{"curves.svg"};
  std::optional<StepReport> last;
  double status_at = -1e300;  // of elapsed seconds: the other clock may be set back

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<StepReport> queue;
  std::string end_state;
  bool ending = false, ended = false;
  std::atomic<int64_t> dropped{0};
};

Metrics::Metrics(MetricsConfig config) : state_(std::make_shared<State>(std::move(config))) {
  std::thread([state = state_] { state->run(); }).detach();  // finish() waits for it, but not for ever
}

Metrics::~Metrics() { finish("stopped"); }

void Metrics::write(StepReport report) noexcept {
  try {
    std::scoped_lock lock(state_->mutex);
    if (state_->queue.size() < kQueue && !state_->ending) {
      state_->queue.push_back(std::move(report));
      state_->changed.notify_all();
      return;
    }
  } catch (...) {  // no memory for a report
  }
  ++state_->dropped;
}

void Metrics::finish(const std::string& end_state) noexcept {
  try {
    std::unique_lock lock(state_->mutex);
    if (state_->ending) return;
    state_->ending = true;
    state_->end_state = end_state;
    state_->changed.notify_all();
    const bool ended = state_->changed.wait_for(lock, kDrain, [&] { return state_->ended; });
    const int64_t dropped = state_->dropped;
    lock.unlock();
    if (!ended)
      log::warning("{}: metrics are not all written: the disk does not answer", state_->config.folder.string());
    if (dropped > 0) log::warning("metrics: {} steps were not written, the files were too slow", dropped);
  } catch (...) {  // no memory for the last word
  }
}

int64_t Metrics::dropped() const { return state_->dropped; }

}  // namespace lf
