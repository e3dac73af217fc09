#include "launch/store_client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"
#include "launch/store_protocol.h"

namespace lf {

// One connection.
class StoreClient::Link {
 public:
  Link(const std::filesystem::path& path, std::chrono::milliseconds reply_limit);
  ~Link() {
    if (fd_ >= 0) close(fd_);
  }

  // The reply without its size.
  std::string call(StoreFrameWriter& writer) {
    const std::lock_guard lock(mutex_);
    return exchange(writer);
  }

 private:
  [[noreturn]] void gone(const std::string& why) {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    fail(Exit::kUnavailable, "{}: the launcher's store is gone ({}); look for what ended the launcher", name_, why);
  }

  void receive(void* out, size_t size) {
    auto* bytes = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t n = recv(fd_, bytes, size, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n == 0) gone("connection closed");
      if (n < 0) gone(errno == EAGAIN ? "no reply in time" : std::strerror(errno));
      bytes += n;
      size -= static_cast<size_t>(n);
    }
  }

  std::string exchange(StoreFrameWriter& writer) {
    std::string request;
    try {
      request = writer.finish();
    } catch (const BadStoreFrame& bad) {
      fail(Exit::kBug, "{}: {}", name_, bad.what());
    }
    if (fd_ < 0) gone("given up before");
    for (size_t at = 0; at < request.size();) {
      const ssize_t n = send(fd_, request.data() + at, request.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) gone(std::strerror(errno));
      at += static_cast<size_t>(n);
    }
    uint32_t size = 0;
    receive(&size, sizeof size);
    if (size == 0 || size > kMostStoreFrameBytes + 64) gone("a reply that is none");
    std::string reply(size, '\0');
    receive(reply.data(), size);
    if (static_cast<StoreStatus>(reply[0]) == StoreStatus::kRefused) {
      std::string why = "refused";
      if (reply.size() > 5) why = reply.substr(5);
      gone(why);
    }
    return reply;
  }

  const std::string name_;
  int fd_ = -1;
  std::mutex mutex_;
};

StoreClient::Link::Link(const std::filesystem::path& path, std::chrono::milliseconds reply_limit)
    : name_(path.string()) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name_.size() >= sizeof address.sun_path) fail(Exit::kUnavailable, "{}: too long for a socket's name", name_);
  std::memcpy(address.sun_path, name_.c_str(), name_.size());
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(reply_limit).count();
  const timeval limit{micros / 1'000'000, micros % 1'000'000};
  if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    gone(std::strerror(errno));
}

namespace {

StoreFrameWriter request(StoreOp op) { return StoreFrameWriter(static_cast<uint8_t>(op)); }

int64_t number_of(const std::string& reply) {
  StoreFrameReader reader(reply);
  return reader.number();
}

}  // namespace

StoreClient::StoreClient(const std::filesystem::path& socket_path, std::chrono::milliseconds reply_limit)
    : calls_(std::make_unique<Link>(socket_path, reply_limit)),
      waits_(std::make_unique<Link>(socket_path, reply_limit)) {}

StoreClient::~StoreClient() = default;

void StoreClient::set(const std::string& key, const std::string& value) {
  calls_->call(request(StoreOp::kSet).text(key).text(value));
}

std::optional<std::string> StoreClient::get(const std::string& key) {
  const std::string reply = calls_->call(request(StoreOp::kGet).text(key));
  StoreFrameReader reader(reply);
  if (static_cast<StoreStatus>(reader.first()) == StoreStatus::kAbsent) return std::nullopt;
  return std::string(reader.text());
}

int64_t StoreClient::add(const std::string& key, int64_t amount) {
  return number_of(calls_->call(request(StoreOp::kAdd).text(key).number(amount)));
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  StoreFrameWriter writer = request(StoreOp::kCheck);
  for (const std::string& key : keys) writer.text(key);
  return number_of(calls_->call(writer)) == 1;
}

bool StoreClient::erase(const std::string& key) {
  return number_of(calls_->call(request(StoreOp::kErase).text(key))) == 1;
}

int64_t StoreClient::num_keys() {
  StoreFrameWriter writer = request(StoreOp::kNumKeys);
  return number_of(calls_->call(writer));
}

std::string StoreClient::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const std::string reply = calls_->call(request(StoreOp::kCompareSet).text(key).text(expected).text(desired));
  StoreFrameReader reader(reply);
  return std::string(reader.text());
}

bool StoreClient::wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit,
                       const std::function<bool()>& cancelled) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kSlice{20};  // how long others, and `cancelled`, wait for their turn
  const Clock::time_point deadline = Clock::now() + limit;
  for (;;) {
    if (cancelled && cancelled()) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    StoreFrameWriter writer = request(StoreOp::kWait);
    writer.number(std::clamp(left, std::chrono::milliseconds(0), kSlice).count());
    for (const std::string& key : keys) writer.text(key);
    const std::string reply = waits_->call(writer);
    if (static_cast<StoreStatus>(reply[0]) == StoreStatus::kOk) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace lf
