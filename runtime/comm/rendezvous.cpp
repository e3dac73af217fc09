#include "comm/rendezvous.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/gloo_group.h"
#include "comm/membership.h"
#include "core/error.h"

namespace lf {

namespace {

class RenewedWord final : public LongWork {
 public:
  RenewedWord(std::shared_ptr<Membership> membership, std::string what)
      : membership_(std::move(membership)), what_(std::move(what)), thread_([this] { renew(); }) {}
  ~RenewedWord() override {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
    membership_->say_long_work("");
  }

 private:
  void renew() {
    std::unique_lock lock(mutex_);
    for (int seconds = 0; !done_; ++seconds) {
      lock.unlock();
      membership_->say_long_work(fmt::format("{} ({} s)", what_, seconds));
      lock.lock();
      changed_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; });
    }
  }

  const std::shared_ptr<Membership> membership_;
  const std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

struct Rendezvous::State {
  std::shared_ptr<Membership> membership;
  std::shared_ptr<gloo::transport::Device> device;
  std::mutex forming;  // sockets that appear meanwhile are the group's
};

Rendezvous::Rendezvous(RendezvousConfig config, std::shared_ptr<KeyValueStore> store)
    : state_(std::make_shared<State>()) {
  const char* transport = std::getenv("GLOO_DEVICE_TRANSPORT");
  if (transport != nullptr && std::string(transport) == "TCP_TLS") {
    fail(Exit::kConfig,
         "GLOO_DEVICE_TRANSPORT=TCP_TLS: expected TCP or nothing; this LibTorch's TLS transport sends plain text and "
         "accepts any certificate. The data plane is not encrypted: use a private network or WireGuard, and unset it");
  }
  state_->membership = std::make_shared<Membership>(std::move(config), std::move(store));
}

Rendezvous::~Rendezvous() = default;

std::unique_ptr<Group> Rendezvous::group(const std::string& name) {
  const RendezvousConfig& config = state_->membership->config();
  if (config.size == 1) return local_group(config.generation + "/" + name);
  std::scoped_lock lock(state_->forming);
  if (!state_->device) state_->device = listen_on(config.address);
  return form_gloo_group(name, state_->membership, state_->device);
}

std::unique_ptr<LongWork> Rendezvous::long_work(const std::string& what) {
  if (state_->membership->config().size == 1) return std::make_unique<LongWork>();
  return std::make_unique<RenewedWord>(state_->membership, what);
}

void Rendezvous::cancel(const std::string& reason) { state_->membership->cancel(reason); }

void Rendezvous::announce_failure(const std::string& what) noexcept {
  try {
    state_->membership->announce(fmt::format("rank {}: {}", state_->membership->config().rank, what));
  } catch (...) {  // no memory for the word
  }
}

}  // namespace lf
