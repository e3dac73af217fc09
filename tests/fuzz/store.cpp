// The store that workers meet on, as a stranger's bytes reach it: whatever they are, it answers the next client.
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>

#include "fuzz/target.h"
#include "launch/store_protocol.h"
#include "launch/store_server.h"

namespace {

class Client {
 public:
  explicit Client(lf::StoreServer& server)
      : server_(server), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, server.path().c_str(), server.path().native().size());
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) __builtin_trap();
  }
  ~Client() {
    ::close(socket_);
    server_.serve();
  }
  Client(const Client&) = delete;

  // Everything that comes back meanwhile; the server may close before it has all.
  std::string send(std::string_view bytes) {
    constexpr int kServes = 3;  // one accepts, the next reads and answers
    std::string answer;
    for (bool open = true; open;) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      open = !bytes.empty() && (n >= 0 || errno == EAGAIN);
      for (int i = 0; i < kServes; ++i) {
        server_.serve();
        char block[4096];
        for (ssize_t got = 0; (got = ::recv(socket_, block, sizeof block, 0)) > 0;)
          answer.append(block, static_cast<size_t>(got));
      }
    }
    return answer;
  }

 private:
  lf::StoreServer& server_;
  int socket_;
};

lf::StoreFrameWriter request(lf::StoreOp op) { return lf::StoreFrameWriter(static_cast<uint8_t>(op)); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lf::StoreServer server;
  {
    Client stranger(server);
    stranger.send(lf::fuzz::text_of(data, size));
    Client worker(server);
    const std::string stored = worker.send(request(lf::StoreOp::kSet).text("a key of ours").text("its value").finish());
    const std::string got = worker.send(request(lf::StoreOp::kGet).text("a key of ours").finish());
    const auto ok = [] { return lf::StoreFrameWriter(static_cast<uint8_t>(lf::StoreStatus::kOk)); };
    if (stored != ok().finish() || got != ok().text("its value").finish()) __builtin_trap();
  }
  if (server.wait_limit_ms() != -1) __builtin_trap();  // nobody is left that waits
  return 0;
}
