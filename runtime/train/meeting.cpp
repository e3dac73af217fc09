#include "train/meeting.h"

#include "core/error.h"

namespace lf {

std::unique_ptr<Rendezvous> meet(const TrainRequest& request) {
  RendezvousConfig config;
  config.rank = request.rank;
  config.size = request.world_size;
  config.generation = fmt::format("g{}", request.generation);
  config.timeout = collective_timeout(request.job.config);
  config.stop_requested = request.stop_requested;
  std::shared_ptr<KeyValueStore> store;
  if (!request.store.empty()) {
    MeetingPlace place = open_store(request.store, request.serve_store, config.form_timeout, request.stop_requested);
    store = std::move(place.store);
    config.address = place.listen_address;
  } else if (request.world_size == 1) {
    store = in_process_store();
  } else {
    fail(Exit::kUsage, "{} ranks and no store where they could meet", request.world_size);
  }
  return std::make_unique<Rendezvous>(config, store);
}

std::chrono::milliseconds collective_timeout(const JobConfig& config) {
  return std::chrono::milliseconds(static_cast<int64_t>(config.reduction.timeout_seconds * 1000));
}

void require_agreement(Exchange& exchange, const std::string& what, const std::string& bytes) {
  const std::vector<std::string> all = exchange.all_gather(bytes);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(Exit::kConfig,
           "rank {} has another {} than rank 0; every rank must run the same lfrun, plugins and job file", rank, what);
}

}  // namespace lf
