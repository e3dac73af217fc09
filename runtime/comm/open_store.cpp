#include <charconv>

#include "comm/key_value_store.h"
#include "core/error.h"
#include "launch/store_client.h"

namespace lf {
namespace {

class LauncherStore final : public KeyValueStore {
 public:
  explicit LauncherStore(const std::string& path) : client_(path) {}
  void set(const std::string& key, const std::string& value) override { client_.set(key, value); }
  std::optional<std::string> get(const std::string& key) override { return client_.get(key); }
  int64_t add(const std::string& key, int64_t amount) override { return client_.add(key, amount); }
  bool erase(const std::string& key) override { return client_.erase(key); }

 private:
  StoreClient client_;
};

}  // namespace

MeetingPlace open_store(const std::string& where, bool serve, std::chrono::milliseconds timeout,
                        const StopRequested& stop_requested) {
  constexpr std::string_view kUnix = "unix:", kTcp = "tcp:";
  if (where.starts_with(kUnix)) {
    return {std::make_shared<LauncherStore>(where.substr(kUnix.size())), "127.0.0.1"};
  }
  const size_t colon = where.rfind(':');
  if (where.starts_with(kTcp) && colon > kTcp.size()) {
    TcpStoreAddress address;
    address.host = where.substr(kTcp.size(), colon - kTcp.size());
    address.serve = serve;
    const char* end = where.data() + where.size();
    const auto parsed = std::from_chars(where.data() + colon + 1, end, address.port);
    if (parsed.ec == std::errc() && parsed.ptr == end && address.port != 0) {
      return {open_tcp_store(address, timeout, stop_requested), local_address_towards(address.host, address.port)};
    }
  }
  fail(Exit::kConfig, "store {}: expected unix:PATH or tcp:HOST:PORT; check MASTER_ADDR and MASTER_PORT", where);
}

}  // namespace lf
