// The server of store_protocol.h, without a thread of its own: it lives in the launcher's poll loop.
#pragma once

#include <filesystem>
#include <memory>

#include <sys/types.h>
#include <unistd.h>

namespace lf {

class StoreServer {
 public:
  // Listens in a new folder that only this user may enter; connections of other users are closed unread.
  // Throws lf::Error(kCannotCreate).
  explicit StoreServer(uid_t allowed = geteuid());
  ~StoreServer();  // removes the folder
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  const std::filesystem::path& path() const;

  // Readable when there is something to serve; also call serve() after wait_limit_ms() (-1: no limit).
  int event_fd() const;
  int wait_limit_ms() const;
  void serve();  // never blocks, never throws for what a client sends

  // In a forked child: lets go of the sockets without touching the folder, which stays the parent's.
  void close_in_child();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lf
