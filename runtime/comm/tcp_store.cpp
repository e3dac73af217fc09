#include <cerrno>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "comm/key_value_store.h"
#include "core/error.h"

namespace lf {
namespace {

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

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// A socket of ours: left to itself, TCPStore listens on every interface whatever the host.
int listen_at(const Resolved& at, const std::string& host, uint16_t port) {
  Descriptor descriptor(socket(at.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (descriptor.get() < 0 || bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      listen(descriptor.get(), 1024) != 0) {
    fail(Exit::kUnavailable,
         "rank 0 cannot listen on MASTER_ADDR={} MASTER_PORT={}: {}; expected a free port of this host", host, port,
         std::strerror(errno));
  }
  return descriptor.release();
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

std::shared_ptr<KeyValueStore> open_tcp_store(const TcpStoreAddress& address, std::chrono::milliseconds timeout) {
  const Resolved at = resolve(address.host, address.port);
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.timeout = timeout;
  options.waitWorkers = false;
  if (address.serve) {
    options.isServer = true;
    options.masterListenFd = listen_at(at, address.host, address.port);
  }
  try {
    return std::make_shared<TcpStore>(c10::make_intrusive<c10d::TCPStore>(at.text, options));
  } catch (const c10::Error& error) {
    fail(Exit::kUnavailable, "no store at MASTER_ADDR={} MASTER_PORT={} within {} ms: {}; check that rank 0 runs there",
         address.host, address.port, timeout.count(), error.what_without_backtrace());
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
