#include "model/communicator.h"

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr std::chrono::milliseconds kLookEvery{50};
constexpr int kLooksBetweenAnswers = 20;

Exit exit_of_collective(int32_t code) {
  switch (code) {
    case LF_E_INVALID:
    case LF_E_BUG:
    case LF_E_ABI:
    case LF_E_EXCEPTION:
      return Exit::kBug;
    default:  // a peer, a card or a link: another try may do
      return Exit::kUnavailable;
  }
}

std::string said_by(const lf_err& err, int32_t code) {
  const std::string text(err.message, strnlen(err.message, sizeof err.message));
  return text.empty() ? fmt::format("error {} without a message", code) : text;
}

// Everyone's trouble, or nothing where no rank has any.
void require_of_all(Exchange& meeting, const std::string& what, const std::string& trouble) {
  std::string all;
  const std::vector<std::string> told = meeting.all_gather(trouble);
  for (size_t rank = 0; rank < told.size(); ++rank)
    if (!told[rank].empty()) all += fmt::format("{}rank {}: {}", all.empty() ? "" : "; ", rank, told[rank]);
  if (!all.empty()) fail(Exit::kUnavailable, "{}: cannot be made: {}", what, all);
}

}  // namespace

Communicator::Communicator(const Device& device, const lf_collective_api* api, Exchange& meeting,
                           const CommunicatorConfig& config)
    : device_(device),
      api_(api),
      what_(fmt::format("device {}, {}", device.id(), config.name)),
      roll_(meeting.roll_call(fmt::format("{} on cards", config.name))) {
  lf_err err = sdk::make_err();
  std::string id, trouble;
  if (meeting.rank() == 0)
    if (const int32_t code = api_->new_id(sdk::string_sink(id), &err); code != LF_OK) trouble = said_by(err, code);
  require_of_all(meeting, what_, trouble);
  id = meeting.all_gather(id)[0];
  auto wanted = sdk::with_header<lf_communicator_config>();
  wanted.rank = meeting.rank();
  wanted.size = meeting.size();
  wanted.id = id.data();
  wanted.id_bytes = id.size();
  wanted.timeout_ms = config.timeout.count();
  wanted.name = sdk::str(config.name);
  {
    const CallWatch::Call call(device_.watch(), what_ + ": creating the communicator", /*waits_for_peers=*/true);
    if (const int32_t code = api_->create(device_.handle(), &wanted, &handle_, &err); code != LF_OK)
      trouble = said_by(err, code);
    call.require_in_time();
  }
  try {
    require_of_all(meeting, what_, trouble);
  } catch (...) {
    abort();
    if (handle_ != nullptr) api_->free(handle_, &err);
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
  ending_by_watch_.emplace(device_.watch(), [this] { abort(); });
}

Communicator::~Communicator() {
  ending_by_watch_.reset();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  end_.notify_all();
  watcher_.join();
  const CallWatch::Call call(device_.watch(), what_ + ": freeing the communicator");
  lf_err err = sdk::make_err();
  api_->free(handle_, &err);
}

void Communicator::keep(const Error& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!cause_) cause_ = cause;
  }
  abort();  // what waits for peers on this rank's streams would wait for ever
}

void Communicator::watch() {
  std::unique_lock lock(mutex_);
  for (int look = 1; !end_.wait_for(lock, kLookEvery, [this] { return ending_; }); ++look) {
    const bool aborted = aborted_;
    lock.unlock();
    if (look % kLooksBetweenAnswers == 0 && roll_) roll_->answer();
    lf_err err = sdk::make_err();
    const int32_t code = aborted ? LF_OK : api_->state(handle_, &err);
    if (code != LF_OK && !(code == LF_E_TIMEOUT && a_peer_is_at_long_work())) {
      std::string cause = said_by(err, code);
      if (code == LF_E_TIMEOUT) cause = with_silent_ranks(std::move(cause));
      keep(Error(exit_of_collective(code), fmt::format("{}: {}", what_, cause)));
    }
    lock.lock();
  }
}

bool Communicator::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return end_.wait_for(lock, time, [this] { return ending_; });
}

// Overdue for the device, but not for the run: looked at again.
bool Communicator::a_peer_is_at_long_work() {
  return roll_ && !roll_->long_work([this](std::chrono::milliseconds time) { return pause(time); }).empty();
}

// While what waits on this rank's streams still waits: a rank that gave up must not seem to be the one that is missing.
std::string Communicator::with_silent_ranks(std::string overdue) {
  if (!roll_) return overdue;
  const std::vector<int> silent = roll_->silent_ranks([this](std::chrono::milliseconds time) { return pause(time); });
  if (silent.empty()) return overdue + "; every rank waits for it";
  return fmt::format("{}; rank{} {} {} silent: stopped, at something else, or cut off", overdue,
                     silent.size() == 1 ? "" : "s", fmt::join(silent, ", "), silent.size() == 1 ? "is" : "are");
}

void Communicator::all_reduce_f32(std::byte* data, uint64_t count, lf_stream stream) {
  require_sound();
  lf_err err = sdk::make_err();
  const CallWatch::Call call(device_.watch(), what_ + ": all_reduce");
  const int32_t code = api_->all_reduce(handle_, data, data, count, LF_DTYPE_F32, LF_REDUCE_SUM, stream, &err);
  call.require_in_time();
  if (code != LF_OK) {
    keep(Error(exit_of_collective(code), fmt::format("{}: {}", what_, said_by(err, code))));
    require_sound();
  }
}

void Communicator::require_sound() const {
  const std::lock_guard lock(mutex_);
  if (cause_) throw Error(*cause_);
}

void Communicator::abort() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true) || handle_ == nullptr) return;
  }
  lf_err err = sdk::make_err();
  if (LF_HAS(api_, abort)) api_->abort(handle_, &err);
}

}  // namespace lf
