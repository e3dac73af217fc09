#include "comm/peer_sockets.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lf {
namespace {

std::string end_name(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return fmt::format("{}:{}", text, ntohs(in->sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
    return fmt::format("{}:{}", text, ntohs(in->sin6_port));
  }
  return "";
}

std::string own_end(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  return getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? end_name(address) : "";
}

std::string other_end(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  return getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? end_name(address) : "";
}

}  // namespace

std::set<int> connected_tcp_sockets() {
  std::set<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (descriptor >= 0 && !other_end(descriptor).empty()) found.insert(descriptor);
  }
  return found;
}

PeerSockets::PeerSockets(const std::set<int>& descriptors) {
  for (int descriptor : descriptors) {
    const int copy = dup(descriptor);
    if (copy >= 0) sockets_.push_back({copy, -1});
  }
}

PeerSockets::~PeerSockets() {
  for (const Socket& socket : sockets_) close(socket.descriptor);
}

PeerSockets& PeerSockets::operator=(PeerSockets&& other) noexcept {
  std::swap(sockets_, other.sockets_);
  return *this;
}

std::string PeerSockets::own_ends() const {
  std::string text;
  for (const Socket& socket : sockets_) text += own_end(socket.descriptor) + "\n";
  return text;
}

void PeerSockets::label(const std::vector<std::string>& ends) {
  std::vector<Socket> labelled;
  for (const Socket& socket : sockets_) {
    const std::string peer = other_end(socket.descriptor);
    int rank = -1;
    for (size_t candidate = 0; candidate < ends.size() && rank < 0; ++candidate) {
      std::istringstream lines(ends[candidate]);
      for (std::string line; std::getline(lines, line);) {
        if (!peer.empty() && line == peer) rank = static_cast<int>(candidate);
      }
    }
    if (rank >= 0) {
      labelled.push_back({socket.descriptor, rank});
    } else {
      close(socket.descriptor);
    }
  }
  sockets_ = std::move(labelled);
}

std::set<int> PeerSockets::hung_up() const {
  std::vector<pollfd> polled;
  for (const Socket& socket : sockets_) polled.push_back({socket.descriptor, POLLRDHUP, 0});
  std::set<int> ranks;
  if (poll(polled.data(), polled.size(), 0) <= 0) return ranks;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) ranks.insert(sockets_[i].rank);
  }
  return ranks;
}

void PeerSockets::shut_down() noexcept {
  for (const Socket& socket : sockets_) shutdown(socket.descriptor, SHUT_RDWR);
}

}  // namespace lf
