#include "comm/gloo_group.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <thread>

#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/version.h>

#include "comm/gloo_store.h"
#include "comm/peer_sockets.h"
#include "comm/roll_call.h"
#include "core/error.h"
#include "core/log.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// gloo_shim/ declares no more of Gloo than this version of c10d's header names; another one must be looked at again.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11, "read gloo_shim/gloo/context.h");
static_assert(sizeof(c10d::ProcessGroupGloo) == 488 && sizeof(c10d::ProcessGroupGloo::Options) == 176);

constexpr milliseconds kPeerLook{10};     // between two looks at peers while a collective runs
constexpr milliseconds kConnect{20'000};  // once all addresses are known; a peer that died then leaves its pair waiting
// For an operation, by Gloo itself. Ours, which names the rank that is late, must come first, and it runs from when the
// operation is waited for and is longer where a rank is at long work.
constexpr milliseconds kGloosOwn = std::chrono::hours(24 * 365);
constexpr milliseconds kSettle{2'000};    // for an operation to end once its sockets are closed
constexpr milliseconds kRollLook{1'000};  // between two looks of a waiting rank at whether the roll is called

at::ScalarType scalar_type(int32_t dtype) {
  switch (dtype) {
    case LF_DTYPE_F32:
      return at::kFloat;
    case LF_DTYPE_F64:
      return at::kDouble;
    case LF_DTYPE_BF16:
      return at::kBFloat16;
    case LF_DTYPE_F16:
      return at::kHalf;
    case LF_DTYPE_I64:
      return at::kLong;
    case LF_DTYPE_I32:
      return at::kInt;
    case LF_DTYPE_U8:
      return at::kByte;
    default:
      fail(Exit::kBug, "all-reduce: no sum over dtype {}", dtype);
  }
}

c10d::ReduceOp reduce_op(int32_t reduction) {
  switch (reduction) {
    case LF_REDUCE_SUM:
      return c10d::ReduceOp::SUM;
    case LF_REDUCE_MAX:
      return c10d::ReduceOp::MAX;
    case LF_REDUCE_MIN:
      return c10d::ReduceOp::MIN;
    default:
      fail(Exit::kBug, "all-reduce: no reduction {}", reduction);
  }
}

at::Tensor view(const void* data, int64_t count, at::ScalarType type) {
  return at::from_blob(const_cast<void*>(data), {count}, at::TensorOptions().dtype(type));
}

// Set by Gloo's thread when an operation ends, well or not.
class Signal {
 public:
  void set() {
    {
      std::scoped_lock lock(mutex_);
      is_set_ = true;
    }
    changed_.notify_all();
  }
  bool wait_for(milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return is_set_; });
  }
  bool is_set() {
    std::scoped_lock lock(mutex_);
    return is_set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

class GlooGroup final : public Group {
 public:
  GlooGroup(std::string name, std::shared_ptr<Membership> membership, c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo,
            PeerSockets sockets)
      : short_name_(std::move(name)),
        name_(membership->key(short_name_)),
        membership_(std::move(membership)),
        roll_(membership_, short_name_),
        gloo_(std::move(gloo)),
        sockets_(std::move(sockets)) {}

  // The first words of the group, before anybody uses it. Not in the constructor: what fails here leaves work under
  // way, of which only the destructor lets go.
  void learn_who_is_where() {
    const auto ends = Group::all_gather(sockets_.own_ends());
    barrier();  // labelling lets unlabelled sockets go, which no peer may still be waiting on
    sockets_.label(ends);
  }

  ~GlooGroup() override {
    const bool in_order = !is_dead_ && !membership_->cancelled() && std::uncaught_exceptions() == 0;
    if (in_order) membership_->say_goodbye(short_name_);
    if (!in_order) sockets_.shut_down();
    if (is_stuck_)
      gloo_.release();  // joining its threads would take this rank's error along; they go with the process
    else
      gloo_.reset();  // ends its threads; what is still in flight to peers is sent
    sockets_.shut_down();
  }

  int rank() const override { return membership_->config().rank; }
  int size() const override { return membership_->config().size; }
  const std::string& name() const override { return name_; }

  Ticket all_reduce_async(void* data, int64_t count, int32_t dtype, int32_t reduction) override {
    if (count == 0) return Ticket();
    c10d::AllreduceOptions options;
    options.reduceOp = reduce_op(reduction);
    std::vector<at::Tensor> tensors{view(data, count, scalar_type(dtype))};
    return start("all-reduce", [&] { return gloo_->allreduce(tensors, options); });
  }

  Ticket all_to_all_async(const void* in, std::span<const int64_t> send_bytes, void* out,
                          std::span<const int64_t> receive_bytes) override {
    std::vector<int64_t> send(send_bytes.begin(), send_bytes.end()),
        receive(receive_bytes.begin(), receive_bytes.end());
    if (send.size() != static_cast<size_t>(size()) || receive.size() != send.size()) {
      fail(Exit::kBug, "group {}: all-to-all needs {} counts, got {} and {}", name_, size(), send.size(),
           receive.size());
    }
    const auto total = [](const std::vector<int64_t>& counts) {
      int64_t sum = 0;
      for (int64_t count : counts) sum += count;
      return sum;
    };
    at::Tensor from = view(in, total(send), at::kByte), to = view(out, total(receive), at::kByte);
    return start("all-to-all", [&] { return gloo_->alltoall_base(to, from, receive, send); });
  }

  Ticket all_gather_async(const void* in, void* out, int64_t bytes) override {
    if (bytes == 0) return Ticket();
    at::Tensor from = view(in, bytes, at::kByte), to = view(out, bytes * size(), at::kByte);
    return start("all-gather", [&] { return gloo_->_allgather_base(to, from); });
  }

  Ticket broadcast_async(void* data, int64_t bytes, int root) override {
    if (bytes == 0) return Ticket();
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{view(data, bytes, at::kByte)};
    return start("broadcast", [&] { return gloo_->broadcast(tensors, options); });
  }

  void barrier() override {
    start("barrier", [&] { return gloo_->barrier(); }).wait();
  }

  void abort() noexcept override { aborted_.store(true); }

  std::unique_ptr<RollCall> roll_call(const std::string& of) override {
    return std::make_unique<StoredRoll>(membership_, of);
  }

 private:
  class Pending final : public Ticket::Work {
   public:
    Pending(GlooGroup& group, const char* what, c10::intrusive_ptr<c10d::Work> work)
        : group_(group), what_(what), work_(std::move(work)), signal_(std::make_shared<Signal>()) {
      work_->getFuture()->addCallback([signal = signal_](c10::ivalue::Future&) { signal->set(); }, false);
    }
    ~Pending() override {
      if (waited_) return;
      try {
        if (std::uncaught_exceptions() > 0) group_.sockets_.shut_down();  // nobody will come back for it
        wait();
      } catch (...) {  // the owner gave the ticket up, and its error with it
      }
    }
    bool done() override { return signal_->is_set(); }
    void wait() override {
      waited_ = true;
      group_.wait(*work_, *signal_, what_);
    }

   private:
    GlooGroup& group_;
    const char* what_;
    c10::intrusive_ptr<c10d::Work> work_;
    std::shared_ptr<Signal> signal_;
    bool waited_ = false;
  };

  template <typename Call>
  Ticket start(const char* what, Call call) {
    if (is_dead_) fail(Exit::kUnavailable, "group {}: {} after it failed: {}", name_, what, death_);
    look_around(what, nullptr);
    try {
      return Ticket(std::make_unique<Pending>(*this, what, call()));
    } catch (const c10::Error& error) {
      fail(Exit::kBug, "group {}: {}: {}", name_, what, error.what_without_backtrace());
    }
  }

  void wait(c10d::Work& work, Signal& signal, const char* what) {
    if (is_dead_) {
      settle(signal);
      fail(Exit::kUnavailable, "group {}: {}: {}", name_, what, death_);
    }
    auto deadline = Clock::now() + membership_->config().timeout;
    auto next_look = Clock::now() + kRollLook;
    while (!signal.wait_for(kPeerLook)) {
      look_around(what, &signal);
      if (const std::string gone = gone_peer(); !gone.empty() && !signal.is_set()) die_of(gone, what, &signal);
      if (Clock::now() > deadline) {
        await_long_work(what, signal);
        deadline = Clock::now() + membership_->config().timeout;
      }
      if (Clock::now() < next_look) continue;
      next_look += kRollLook;
      roll_.answer();
    }
    try {
      work.wait();
    } catch (const std::exception& error) {
      if (const std::string gone = gone_peer(); !gone.empty()) die_of(gone, what, &signal);
      if (!left_.empty()) end(fmt::format("rank {} has left the group", *left_.begin()), what, &signal);
      die_of(error.what(), what, &signal);
    }
  }

  // Returns where a rank is at work that is waited for, or the wait is over.
  void await_long_work(const char* what, Signal& signal) {
    const std::string at = roll_.long_work([&](milliseconds time) { return signal.wait_for(time); });
    if (signal.is_set()) return;
    if (at.empty()) die_of(who_is_late(signal), what, &signal);
    log::info("group {}: {} waits: {}", name_, what, at);
  }

  // Asks all ranks while their connections still stand.
  std::string who_is_late(Signal& signal) {
    const std::vector<int> silent = roll_.silent_ranks([&](milliseconds time) { return signal.wait_for(time); });
    const double seconds = membership_->config().timeout.count() / 1000.0;
    if (silent.empty()) return fmt::format("it did not end within {} s, though every rank waits for it", seconds);
    return fmt::format("rank{} {} did not take part within {} s, and {} silent: stopped, at something else, or cut off",
                       silent.size() == 1 ? "" : "s", fmt::join(silent, ", "), seconds,
                       silent.size() == 1 ? "is" : "are");
  }

  void look_around(const char* what, Signal* signal) {
    if (membership_->cancelled()) die_of(membership_->cancel_reason(), what, signal);
    if (aborted_.load()) {
      membership_->say_goodbye(short_name_);
      end("this rank aborted it", what, signal);
    }
  }

  // "rank 2 is gone ..." where a peer closed its connection without a goodbye; else empty.
  std::string gone_peer() {
    for (int peer : sockets_.hung_up()) {
      if (peer >= 0 && (left_.contains(peer) || membership_->said_goodbye(short_name_, peer))) {
        left_.insert(peer);
        continue;
      }
      return fmt::format("{} is gone: its connection closed in the middle of the work",
                         peer >= 0 ? fmt::format("rank {}", peer) : "a rank");
    }
    return "";
  }

  // A failure of the job: leaves word of it for the other ranks.
  [[noreturn]] void die_of(const std::string& seen, const char* what, Signal* signal) {
    membership_->announce(fmt::format("{} (seen by rank {})", seen, rank()));
    end(seen, what, signal);
  }

  [[noreturn]] void end(const std::string& seen, const char* what, Signal* signal) {
    is_dead_ = true;
    sockets_.shut_down();
    if (signal != nullptr) settle(*signal);
    death_ = seen;
    const std::optional<std::string> word = membership_->first_word();
    if (word && word->rfind(seen, 0) != 0) death_ += "; first of all, " + *word;
    fail(Exit::kUnavailable, "group {}: {} failed on rank {}: {}{}", name_, what, rank(), death_,
         aborted_.load() ? "" : "; see the logs of the ranks named");
  }

  // Until Gloo's threads have let go of the buffers, which now and then one does not: a send that begins while its
  // socket is being closed waits for as long as a group may.
  void settle(Signal& signal) {
    if (!is_stuck_) is_stuck_ = !signal.wait_for(kSettle);
  }

  const std::string short_name_, name_;
  std::shared_ptr<Membership> membership_;
  StoredRoll roll_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  PeerSockets sockets_;
  std::set<int> left_;
  std::atomic<bool> aborted_{false};
  bool is_dead_ = false;
  bool is_stuck_ = false;  // an operation did not end when its sockets were closed
  std::string death_;
};

[[noreturn]] void fail_to_form(const std::string& name, Membership& membership, const std::string& why) {
  const RendezvousConfig& config = membership.config();
  const std::optional<std::string> word = membership.first_word();
  const std::string text = fmt::format("group {}: rank {} could not join its {} ranks: {}{}", membership.key(name),
                                       config.rank, config.size, why, word ? "; first of all, " + *word : "");
  membership.announce(text);
  fail(Exit::kUnavailable, "{}; see the other ranks' logs", text);
}

void look_around(const std::string& name, Membership& membership) {
  if (const RendezvousConfig& config = membership.config(); config.stop_requested && config.stop_requested()) {
    membership.announce(fmt::format("rank {} was asked to stop while ranks were meeting", config.rank));
    fail(Exit::kSavedRunAgain, "asked to stop while ranks were meeting; nothing has begun");
  }
  if (membership.cancelled()) fail_to_form(name, membership, membership.cancel_reason());
  if (membership.first_word()) fail_to_form(name, membership, "a rank failed meanwhile");
}

// Who is missing is known before Gloo, which could not say it, starts to connect.
void await_all(const std::string& name, Membership& membership) {
  const RendezvousConfig& config = membership.config();
  const auto here = [&](int rank) { return membership.key(fmt::format("{}/here/{}", name, rank)); };
  membership.store().set(here(config.rank), config.address);
  std::set<int> missing;
  for (int rank = 0; rank < config.size; ++rank) missing.insert(rank);
  const auto deadline = Clock::now() + config.form_timeout;
  auto pause = std::chrono::microseconds(200);
  while (true) {
    std::erase_if(missing, [&](int rank) { return membership.store().get(here(rank)).has_value(); });
    if (missing.empty()) return;
    look_around(name, membership);
    if (Clock::now() > deadline) {
      fail_to_form(name, membership,
                   fmt::format("rank{} {} did not come within {} s", missing.size() == 1 ? "" : "s",
                               fmt::join(missing, ", "), config.form_timeout.count() / 1000.0));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

}  // namespace

std::shared_ptr<gloo::transport::Device> listen_on(const std::string& address) {
  try {
    return c10d::ProcessGroupGloo::createDeviceForHostname(address, /*lazyInit=*/false);
  } catch (const std::exception& error) {
    fail(Exit::kUnavailable, "Gloo cannot listen on {}: {}; expected a numeric address of this host", address,
         error.what());
  }
}

std::unique_ptr<Group> form_gloo_group(const std::string& name, std::shared_ptr<Membership> membership,
                                       std::shared_ptr<gloo::transport::Device> device) {
  await_all(name, *membership);
  const auto deadline = Clock::now() + kConnect;
  const std::set<int> before = connected_tcp_sockets();
  // On a thread of its own: Gloo's constructor cannot be called off when a peer dies between its address and its
  // connection; the caller then leaves it behind.
  std::promise<c10::intrusive_ptr<c10d::ProcessGroupGloo>> promise;
  auto formed = promise.get_future();
  std::thread([promise = std::move(promise), membership, device, name]() mutable {
    try {
      const RendezvousConfig& config = membership->config();
      auto options = c10d::ProcessGroupGloo::Options::create(kConnect);
      options->threads = 1;
      options->devices = {device};
      auto store = c10::make_intrusive<StoreForGloo>(membership, membership->key(name + "/gloo/"));
      auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, config.rank, config.size, options);
      gloo->setTimeout(kGloosOwn);
      promise.set_value(std::move(gloo));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();

  while (formed.wait_for(kPeerLook) != std::future_status::ready) {
    look_around(name, *membership);
    if (Clock::now() > deadline) fail_to_form(name, *membership, "a rank's connection timed out");
  }
  try {
    std::set<int> sockets = connected_tcp_sockets();
    auto gloo = formed.get();
    std::erase_if(sockets, [&](int descriptor) { return before.contains(descriptor); });
    auto group = std::make_unique<GlooGroup>(name, membership, std::move(gloo), PeerSockets(sockets));
    group->learn_who_is_where();
    return group;
  } catch (const c10::Error& error) {
    fail_to_form(name, *membership, error.what_without_backtrace());
  }
}

}  // namespace lf
