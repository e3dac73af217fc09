#include "launch/store_server.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/error.h"
#include "launch/store_folder.h"
#include "launch/store_protocol.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostConnections = 4096;
constexpr size_t kMostUnsentBytes = 64u << 20;  // a client that asks and does not listen
constexpr int64_t kMostWaitMs = 7 * 24 * 3600 * int64_t{1000};

struct Waiting {
  std::vector<std::string> keys;
  Clock::time_point deadline;
};

struct Connection {
  std::string in, out;
  std::optional<Waiting> waiting;  // no further request is looked at meanwhile
  bool closing = false;            // once `out` is sent
  bool wants_out = false;          // as epoll was told
};

std::string status_frame(StoreStatus status) { return StoreFrameWriter(static_cast<uint8_t>(status)).finish(); }

std::string number_frame(int64_t number) {
  return StoreFrameWriter(static_cast<uint8_t>(StoreStatus::kOk)).number(number).finish();
}

std::string text_frame(StoreStatus status, std::string_view text) {
  return StoreFrameWriter(static_cast<uint8_t>(status)).text(text).finish();
}

}  // namespace

struct StoreServer::State {
  std::optional<StoreFolder> folder;
  std::filesystem::path path;
  uid_t allowed = 0;
  int listener = -1, epoll = -1;
  std::map<int, Connection> connections;  // by descriptor
  std::unordered_map<std::string, std::string> values;
  uint64_t bytes = 0;

  void accept_new() {
    for (;;) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;  // none left, or none to be had now: epoll asks again
      ucred peer{};
      socklen_t size = sizeof peer;
      const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == allowed;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = fd;
      if (!known || connections.size() >= kMostConnections || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        continue;
      }
      connections.emplace(fd, Connection{});
    }
  }

  // False: the connection is at its end.
  bool receive(int fd, Connection& connection) {
    char block[64 << 10];
    for (;;) {
      const ssize_t n = recv(fd, block, sizeof block, 0);
      if (n > 0) {
        if (connection.closing) continue;
        connection.in.append(block, static_cast<size_t>(n));
        if (!take_frames(connection)) continue;
        if (connection.in.size() > kMostStoreFrameBytes + sizeof(uint32_t)) return false;  // it does not wait its turn
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }

  // Answers whole frames. False: one was refused, and the connection closes after its answer.
  bool take_frames(Connection& connection) {
    size_t at = 0;
    while (!connection.waiting && !connection.closing && connection.in.size() - at >= sizeof(uint32_t)) {
      uint32_t size = 0;
      std::memcpy(&size, connection.in.data() + at, sizeof size);
      if (size == 0 || size > kMostStoreFrameBytes) {
        close_after(connection, "a frame must have 1 to 16777216 bytes");
        break;
      }
      if (connection.in.size() - at - sizeof size < size) break;
      const std::string_view frame(connection.in.data() + at + sizeof size, size);
      at += sizeof size + size;
      try {
        answer(connection, frame);
      } catch (const BadStoreFrame& bad) {
        close_after(connection, bad.what());
      }
      // Before the next answer is made: small requests for large values multiply.
      if (connection.out.size() > kMostUnsentBytes) connection.closing = true;
    }
    connection.in.erase(0, at);
    return !connection.closing;
  }

  static void close_after(Connection& connection, std::string_view why) {
    connection.out += text_frame(StoreStatus::kRefused, why);
    connection.closing = true;
  }

  void answer(Connection& connection, std::string_view frame) {
    StoreFrameReader reader(frame);
    switch (static_cast<StoreOp>(reader.first())) {
      case StoreOp::kSet: {
        const std::string key(reader.text());
        const std::string_view value = reader.text();
        reader.end();
        put(key, value);
        connection.out += status_frame(StoreStatus::kOk);
        return;
      }
      case StoreOp::kGet: {
        const auto found = values.find(std::string(reader.text()));
        reader.end();
        connection.out +=
            found == values.end() ? status_frame(StoreStatus::kAbsent) : text_frame(StoreStatus::kOk, found->second);
        return;
      }
      case StoreOp::kAdd: {
        const std::string key(reader.text());
        const int64_t amount = reader.number();
        reader.end();
        connection.out += number_frame(add(key, amount));
        return;
      }
      case StoreOp::kWait: {
        const int64_t limit = std::clamp<int64_t>(reader.number(), 0, kMostWaitMs);
        Waiting waiting{keys_of(reader), Clock::now() + std::chrono::milliseconds(limit)};
        if (all_there(waiting.keys))
          connection.out += status_frame(StoreStatus::kOk);
        else
          connection.waiting = std::move(waiting);
        return;
      }
      case StoreOp::kCheck:
        connection.out += number_frame(all_there(keys_of(reader)) ? 1 : 0);
        return;
      case StoreOp::kErase: {
        const auto found = values.find(std::string(reader.text()));
        reader.end();
        if (found != values.end()) {
          bytes -= found->first.size() + found->second.size();
          values.erase(found);
          connection.out += number_frame(1);
        } else {
          connection.out += number_frame(0);
        }
        return;
      }
      case StoreOp::kNumKeys:
        reader.end();
        connection.out += number_frame(static_cast<int64_t>(values.size()));
        return;
      case StoreOp::kCompareSet: {
        const std::string key(reader.text());
        const std::string_view expected = reader.text(), desired = reader.text();
        reader.end();
        const auto found = values.find(key);
        std::string result;
        if (found == values.end() ? expected.empty() : found->second == expected) {
          result = desired;
          put(key, desired);
        } else {
          result = found == values.end() ? expected : std::string_view(found->second);
        }
        connection.out += text_frame(StoreStatus::kOk, result);
        return;
      }
    }
    throw BadStoreFrame("an operation must be 1 to 8, got " + std::to_string(reader.first()));
  }

  static std::vector<std::string> keys_of(StoreFrameReader& reader) {
    std::vector<std::string> keys;
    while (!reader.at_end()) keys.emplace_back(reader.text());
    return keys;
  }

  bool all_there(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return values.contains(key); });
  }

  void put(const std::string& key, std::string_view value) {
    const auto found = values.find(key);
    const uint64_t before = found == values.end() ? 0 : key.size() + found->second.size();
    const uint64_t after = bytes - before + key.size() + value.size();
    if (after > kMostStoreBytes) throw BadStoreFrame("the store is full: 256 MiB of keys and values");
    bytes = after;
    if (found == values.end())
      values.emplace(key, value);
    else
      found->second = value;
    wake_waiting();
  }

  int64_t add(const std::string& key, int64_t amount) {
    int64_t number = 0;
    if (const auto found = values.find(key); found != values.end()) {
      const std::string& text = found->second;
      const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (wrong != std::errc{} || end != text.data() + text.size())
        throw BadStoreFrame("add: the value of the key is not a number");
    }
    if (__builtin_add_overflow(number, amount, &number)) throw BadStoreFrame("add: the sum does not fit into 64 bits");
    put(key, std::to_string(number));
    return number;
  }

  void wake_waiting() {
    for (auto& [fd, connection] : connections)
      if (connection.waiting && all_there(connection.waiting->keys)) {
        connection.waiting.reset();
        connection.out += status_frame(StoreStatus::kOk);
      }
  }

  // False: the connection is at its end.
  bool send_out(int fd, Connection& connection) {
    while (!connection.out.empty()) {
      const ssize_t n = send(fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (n < 0) break;
      connection.out.erase(0, static_cast<size_t>(n));
    }
    if (connection.out.empty() && connection.closing) return false;
    if (connection.out.size() > kMostUnsentBytes) return false;
    if (connection.wants_out != !connection.out.empty()) {
      connection.wants_out = !connection.out.empty();
      epoll_event event{};
      event.events = EPOLLIN | (connection.wants_out ? static_cast<uint32_t>(EPOLLOUT) : 0u);
      event.data.fd = fd;
      epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
    }
    return true;
  }

  void let_go() {
    for (auto& [fd, connection] : connections) close(fd);
    connections.clear();
    if (listener >= 0) close(listener);
    if (epoll >= 0) close(epoll);
    listener = epoll = -1;
  }
};

StoreServer::StoreServer(uid_t allowed) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.allowed = allowed;
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) fail(Exit::kCannotCreate, "TMPDIR: expected a folder, got none; unset it, or create the folder");
  const std::string name = (temporary / "lfrun-XXXXXX").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + sizeof "/store" > sizeof address.sun_path)
    fail(Exit::kCannotCreate, "{}: too long for a socket's name; set TMPDIR to a shorter folder", name);
  remove_left_store_folders(temporary);
  state.folder.emplace(temporary);
  state.path = state.folder->path() / "store";
  std::memcpy(address.sun_path, state.path.c_str(), state.path.native().size());
  state.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  state.epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = state.listener;
  if (state.listener < 0 || state.epoll < 0 ||
      bind(state.listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(state.listener, 1024) != 0 || epoll_ctl(state.epoll, EPOLL_CTL_ADD, state.listener, &event) != 0) {
    const std::string reason = std::strerror(errno);
    state.let_go();
    fail(Exit::kCannotCreate, "{}: the workers' socket cannot be made: {}", state.path.string(), reason);
  }
}

StoreServer::~StoreServer() {
  if (!state_) return;
  state_->let_go();
}

const std::filesystem::path& StoreServer::path() const { return state_->path; }

int StoreServer::event_fd() const { return state_->epoll; }

int StoreServer::wait_limit_ms() const {
  std::optional<Clock::time_point> first;
  for (const auto& [fd, connection] : state_->connections)
    if (connection.waiting && (!first || connection.waiting->deadline < *first)) first = connection.waiting->deadline;
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void StoreServer::serve() {
  State& state = *state_;
  std::set<int> ended;
  epoll_event events[64];
  const int n = epoll_wait(state.epoll, events, 64, 0);
  for (int i = 0; i < n; ++i) {
    const int fd = events[i].data.fd;
    if (fd == state.listener) {
      state.accept_new();
      continue;
    }
    const auto found = state.connections.find(fd);
    if (found != state.connections.end() && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
        !state.receive(fd, found->second))
      ended.insert(fd);
  }
  const Clock::time_point now = Clock::now();
  for (auto& [fd, connection] : state.connections) {
    if (connection.waiting && connection.waiting->deadline <= now) {
      connection.waiting.reset();
      connection.out += status_frame(StoreStatus::kTimeout);
    }
    if (!connection.waiting && !connection.in.empty()) state.take_frames(connection);
  }
  for (auto& [fd, connection] : state.connections)
    if (!state.send_out(fd, connection)) ended.insert(fd);
  for (const int fd : ended) {
    close(fd);  // epoll forgets it
    state.connections.erase(fd);
  }
}

void StoreServer::close_in_child() {
  state_->let_go();
  state_->folder->let_go();
  static_cast<void>(state_.release());  // the folder is the parent's
}

}  // namespace lf
