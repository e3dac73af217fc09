// The few words that ranks leave for each other before a group exists: addresses, and why one of them failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lf {

// Every call is one short exchange with the server and never waits for another rank. Safe from any thread. Throws
// lf::Error(kUnavailable) when the server is gone.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;
  virtual int64_t add(const std::string& key, int64_t amount) = 0;  // of an absent key: 0 + amount
  virtual bool erase(const std::string& key) = 0;                   // false: there was none
};

// Where the ranks of a job meet, and the address at which this host's Gloo listens for them
// (RendezvousConfig::address).
struct MeetingPlace {
  std::shared_ptr<KeyValueStore> store;
  std::string listen_address;
};

// Asked every few hundredths of a second while something is waited for; true: give up, with lf::Error(kSavedRunAgain),
// as nothing has begun that could be lost. Empty: never.
using StopRequested = std::function<bool()>;

// "unix:PATH", the launcher's store of one host, or "tcp:HOST:PORT", which one rank or torchrun's agent serves. Waits
// up to `timeout` for the server. Throws lf::Error(kUnavailable, kConfig, kSavedRunAgain).
MeetingPlace open_store(const std::string& where, bool serve, std::chrono::milliseconds timeout,
                        const StopRequested& stop_requested = {});

// Of one process: ranks as threads.
std::shared_ptr<KeyValueStore> in_process_store();

struct TcpStoreAddress {
  std::string host;  // numeric, or a name of this network; the server listens on this address and on no other
  uint16_t port = 0;
  bool serve = false;  // true on exactly one rank of the job
};

// c10d's TCPStore, for jobs on several hosts. It authenticates nobody: the address must be on a private network.
// Waits up to `timeout` for the server. Throws lf::Error(kUnavailable, kSavedRunAgain).
std::shared_ptr<KeyValueStore> open_tcp_store(const TcpStoreAddress& address, std::chrono::milliseconds timeout,
                                              const StopRequested& stop_requested = {});

// The address of this host as `host` sees it: what Gloo listens on. Loopback for loopback.
std::string local_address_towards(const std::string& host, uint16_t port);

}  // namespace lf
