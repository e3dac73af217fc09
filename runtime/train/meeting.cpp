#include "train/meeting.h"

#include <charconv>

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

TcpStoreAddress tcp_address(const std::string& text, bool serve) {
  const size_t colon = text.rfind(':');
  TcpStoreAddress address{text.substr(0, colon), 0, serve};
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  if (colon == text.npos || std::from_chars(begin, end, address.port).ptr != end || address.port == 0)
    fail(Exit::kUsage, "MASTER_ADDR and MASTER_PORT: expected HOST:PORT, got {}", text);
  return address;
}

}  // namespace

std::unique_ptr<Rendezvous> meet(const TrainRequest& request) {
  RendezvousConfig config;
  config.rank = request.rank;
  config.size = request.world_size;
  config.generation = fmt::format("g{}", request.generation);
  std::shared_ptr<KeyValueStore> store;
  if (request.store.starts_with("unix:")) {
    store = std::make_shared<LauncherStore>(request.store.substr(5));
  } else if (request.store.starts_with("tcp:")) {
    const TcpStoreAddress address = tcp_address(request.store.substr(4), request.serve_store);
    store = open_tcp_store(address, config.form_timeout);
    config.address = local_address_towards(address.host, address.port);
  } else if (request.world_size == 1) {
    store = in_process_store();
  } else {
    fail(Exit::kUsage, "{} ranks and no store where they could meet", request.world_size);
  }
  return std::make_unique<Rendezvous>(config, store);
}

void require_agreement(Exchange& exchange, const std::string& what, const std::string& bytes) {
  const std::vector<std::string> all = exchange.all_gather(bytes);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(Exit::kConfig,
           "rank {} has another {} than rank 0; every rank must run the same lfrun, plugins and job file", rank, what);
}

}  // namespace lf
