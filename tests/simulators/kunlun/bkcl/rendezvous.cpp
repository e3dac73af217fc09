#include "rendezvous.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "segment.h"

namespace lf::sim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kNameBytes = 64;

struct Hello {
  int rank, size;
};

int milliseconds_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

Clock::time_point deadline() {
  return Clock::now() + std::chrono::milliseconds(static_cast<long>(timeout_seconds() * 1000));
}

// Everything after the name is a function of it, so that an id which was cut short is noticed.
char filler(std::span<const char> name, size_t at) { return static_cast<char>(name[at % kNameBytes] ^ (at * 31)); }

sockaddr_un address(std::span<const char> id, socklen_t& bytes) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, id.data(), kNameBytes);  // a leading NUL: no file is left behind
  bytes = offsetof(sockaddr_un, sun_path) + 1 + kNameBytes;
  return where;
}

void send_descriptor(int socket, int descriptor) {
  char byte = 1, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

int receive_descriptor(int socket) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

// Collects one Hello per rank, then hands out the memory. Whoever disagrees with the first is hung up on.
void answer(int listener) {
  const auto until = deadline();
  std::vector<int> of_rank;
  size_t arrived = 0;
  pollfd waiting{listener, POLLIN, 0};
  while ((of_rank.empty() || arrived < of_rank.size()) && poll(&waiting, 1, milliseconds_left(until)) == 1) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Hello hello{};
    if (socket < 0) break;
    const bool heard = recv(socket, &hello, sizeof hello, MSG_WAITALL) == sizeof hello;
    if (heard && of_rank.empty() && hello.size > 0) of_rank.assign(hello.size, -1);
    if (!heard || static_cast<size_t>(hello.size) != of_rank.size() || hello.rank < 0 || hello.rank >= hello.size ||
        of_rank[hello.rank] >= 0) {
      close(socket);
      continue;
    }
    of_rank[hello.rank] = socket;
    ++arrived;
  }
  if (!of_rank.empty() && arrived == of_rank.size()) {
    const int memory = memfd_create("lf_sim_bkcl", MFD_CLOEXEC);
    if (memory >= 0 && ftruncate(memory, static_cast<off_t>(segment_bytes(static_cast<int>(arrived)))) == 0)
      for (const int socket : of_rank) send_descriptor(socket, memory);
    close(memory);
  }
  for (const int socket : of_rank)
    if (socket >= 0) close(socket);
  close(listener);
}

}  // namespace

double timeout_seconds() {
  const char* text = std::getenv("BKCL_TIMEOUT");
  return text == nullptr ? 300 : std::atof(text);
}

void open_rendezvous(std::span<char> id) {
  unsigned char noise[24];
  if (getrandom(noise, sizeof noise, 0) != sizeof noise) std::abort();
  std::memset(id.data(), 'x', kNameBytes);
  int at = std::snprintf(id.data(), kNameBytes, "lf-sim-bkcl-");
  for (const unsigned char byte : noise) at += std::snprintf(id.data() + at, kNameBytes - at, "%02x", byte);
  for (size_t i = kNameBytes; i < id.size(); ++i) id[i] = filler(id, i);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t bytes = 0;
  const sockaddr_un where = address(id, bytes);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&where), bytes) != 0 || listen(listener, 64) != 0) std::abort();
  std::thread(answer, listener).detach();
}

int join_rendezvous(std::span<const char> id, int rank, int size) {
  for (size_t i = kNameBytes; i < id.size(); ++i)
    if (id[i] != filler(id, i)) return -2;
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t bytes = 0;
  const sockaddr_un where = address(id, bytes);
  const Hello hello{rank, size};
  int memory = -1;
  pollfd waiting{connection, POLLIN, 0};
  if (connect(connection, reinterpret_cast<const sockaddr*>(&where), bytes) == 0 &&
      send(connection, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
      poll(&waiting, 1, milliseconds_left(deadline())) == 1)
    memory = receive_descriptor(connection);
  close(connection);
  return memory;
}

}  // namespace lf::sim
