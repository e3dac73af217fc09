#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "comm/key_value_store.h"
#include "core/descriptor.h"
#include "core/error.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kServerLook{50};  // between two looks at the deadline and at who asks to stop
constexpr int kLibTorchLogsNothing = 4;               // one more than FATAL: what goes wrong is said by our errors

struct Resolved {
  sockaddr_storage address{};
  socklen_t size = 0;
  int family = AF_INET;
  std::string text;
};

Resolved resolve(const std::string& host, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    fail(Exit::kUnavailable, "MASTER_ADDR={}: expected the address of a host of this network, got: {}; check the name",
         host, gai_strerror(code));
  }
  // IPv4 where a name has both: "localhost" is then 127.0.0.1 on every rank, whatever the order of the resolver.
  const addrinfo* chosen = found;
  while (chosen != nullptr && chosen->ai_family != AF_INET) chosen = chosen->ai_next;
  if (chosen == nullptr) chosen = found;
  Resolved result;
  std::memcpy(&result.address, chosen->ai_addr, chosen->ai_addrlen);
  result.size = chosen->ai_addrlen;
  result.family = chosen->ai_family;
  freeaddrinfo(found);
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&result.address), result.size, text, sizeof(text), nullptr, 0,
              NI_NUMERICHOST);
  result.text = text;
  return result;
}

// A socket of ours: left to itself, TCPStore listens on every interface whatever the host.
int listen_at(const Resolved& at, const std::string& host, uint16_t port) {
  Descriptor descriptor(socket(at.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (descriptor.get() < 0 || bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      listen(descriptor.get(), 1024) != 0) {
    fail(Exit::kUnavailable,
         "rank 0 cannot listen on MASTER_ADDR={} MASTER_PORT={}: {}; expected a free port of this host; another job "
         "may have it: export MASTER_PORT=...",
         host, port, std::strerror(errno));
  }
  return descriptor.release();
}

// How long a server is waited for, and what is said when that was in vain.
class Patience {
 public:
  Patience(const TcpStoreAddress& address, std::chrono::milliseconds limit, const StopRequested& stop_requested)
      : address_(address), limit_(limit), deadline_(Clock::now() + limit), stop_requested_(stop_requested) {}

  void look(const std::string& seen) const {
    if (stop_requested_ && stop_requested_())
      fail(Exit::kSavedRunAgain, "asked to stop while waiting for the store at MASTER_ADDR={} MASTER_PORT={}",
           address_.host, address_.port);
    if (Clock::now() > deadline_) give_up(seen);
  }
  [[noreturn]] void give_up(const std::string& seen) const {
    fail(Exit::kUnavailable, "no store at MASTER_ADDR={} MASTER_PORT={} within {} s: {}; check that rank 0 runs there",
         address_.host, address_.port, static_cast<double>(limit_.count()) / 1000, seen);
  }

 private:
  const TcpStoreAddress& address_;
  const std::chrono::milliseconds limit_;
  const Clock::time_point deadline_;
  const StopRequested& stop_requested_;
};

// One attempt, of at most kServerLook. Empty: somebody listens there.
std::string try_to_connect(const Resolved& at) {
  const Descriptor descriptor(socket(at.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd waiting{descriptor.get(), POLLOUT, 0};
  if (poll(&waiting, 1, static_cast<int>(kServerLook.count())) <= 0) return "no answer";
  int code = 0;
  socklen_t size = sizeof code;
  getsockopt(descriptor.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code == 0 ? "" : std::strerror(code);
}

// c10d's own attempts cannot be called off, and it writes of each that fails.
void await_listener(const Resolved& at, const Patience& patience) {
  for (std::string seen = try_to_connect(at); !seen.empty(); seen = try_to_connect(at)) {
    patience.look(seen);
    std::this_thread::sleep_for(kServerLook);
  }
}

class TcpStore final : public KeyValueStore {
 public:
  explicit TcpStore(c10::intrusive_ptr<c10d::TCPStore> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    call(key, [&] { store_->set(key, std::vector<uint8_t>(value.begin(), value.end())); });
  }
  std::optional<std::string> get(const std::string& key) override {
    return call(key, [&]() -> std::optional<std::string> {
      if (!store_->check({key})) return std::nullopt;
      const std::vector<uint8_t> value = store_->get(key);
      return std::string(value.begin(), value.end());
    });
  }
  int64_t add(const std::string& key, int64_t amount) override {
    return call(key, [&] { return store_->add(key, amount); });
  }
  bool erase(const std::string& key) override {
    return call(key, [&] { return store_->deleteKey(key); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> call(const std::string& key, Call action) {
    std::scoped_lock lock(mutex_);
    try {
      return action();
    } catch (const c10::Error& error) {
      fail(Exit::kUnavailable, "the store at {}:{} failed for {}: {}; see rank 0's log", store_->getHost(),
           store_->getPort(), key, error.what_without_backtrace());
    }
  }

  std::mutex mutex_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace

std::shared_ptr<KeyValueStore> open_tcp_store(const TcpStoreAddress& address, std::chrono::milliseconds timeout,
                                              const StopRequested& stop_requested) {
  FLAGS_caffe2_log_level = kLibTorchLogsNothing;
  const Patience patience(address, timeout, stop_requested);
  const Resolved at = resolve(address.host, address.port);
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.timeout = timeout;
  options.waitWorkers = false;
  if (address.serve) {
    options.isServer = true;
    options.masterListenFd = listen_at(at, address.host, address.port);
  } else {
    await_listener(at, patience);
  }
  // On a thread of its own: what listens there need not be a store, and c10d would wait for its answer whatever happens
  // here. Given up, it is left behind.
  std::promise<c10::intrusive_ptr<c10d::TCPStore>> promise;
  auto opened = promise.get_future();
  std::thread([promise = std::move(promise), host = at.text, options]() mutable {
    try {
      promise.set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  while (opened.wait_for(kServerLook) != std::future_status::ready) patience.look("nothing there answers as a store");
  try {
    return std::make_shared<TcpStore>(opened.get());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    patience.give_up(text.substr(0, text.find('\n')));
  }
}

// The kernel picks the source address of a route without sending anything.
std::string local_address_towards(const std::string& host, uint16_t port) {
  const Resolved at = resolve(host, port);
  Descriptor descriptor(socket(at.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  char text[NI_MAXHOST] = "";
  if (descriptor.get() < 0 || connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    fail(Exit::kUnavailable, "no route to MASTER_ADDR={}: {}; check the network", host, std::strerror(errno));
  }
  return text;
}

}  // namespace lf
