#include "train/gradient_transport.h"

#include <map>
#include <vector>

#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "train/meeting.h"

namespace lf {
namespace {

std::string host_name() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return host;
}

bool sums(const lf_collective_api* api) {
  return LF_HAS(api, new_id) && LF_HAS(api, create) && LF_HAS(api, free) && LF_HAS(api, state) &&
         LF_HAS(api, all_reduce);
}

// Why this rank alone cannot sum on its card; empty: it can.
std::string own_obstacle(const JobConfig& config, const Session& session) {
  const Device& device = *session.device;
  if (device.is_host()) return fmt::format("{} is the host itself", device.id());
  if (config.reduction.mode == "fixed") return "reduction.mode is fixed, an order that no collective has";
  if (!sums(session.collectives)) return fmt::format("the plugin {} offers no collectives", device.id());
  if (!device.has_streams() || (device.info().abilities & LF_DEVICE_EVENT_QUERY) == 0)
    return fmt::format("{} cannot say whether work is done, so a collective that is stuck would not be noticed",
                       device.id());
  return {};
}

// Why the ranks together cannot: two on one card.
std::string shared_card(const Session& session, Exchange& control) {
  const lf_device_info& info = session.device->info();
  std::map<std::string, size_t> first;
  const std::vector<std::string> cards =
      control.all_gather(fmt::format("{} {} {}", host_name(), info.bus, info.torch_index));
  for (size_t rank = 0; rank < cards.size(); ++rank)
    if (const auto [at, is_new] = first.emplace(cards[rank], rank); !is_new)
      return fmt::format("ranks {} and {} share a card", at->second, rank);
  return {};
}

}  // namespace

void require_card_to_sum_on(const JobConfig& config, std::string_view host_device) {
  if (config.reduction.transport == "device")
    fail(Exit::kUnavailable,
         "reduction.transport: expected the collectives of a card, as the job says, but {} is the host itself; write "
         "\"auto\" or \"host\", or name another device",
         host_device);
}

GradientTransport choose_transport(const JobConfig& config, const Session& session, Exchange& control) {
  if (session.device->is_host()) require_card_to_sum_on(config, session.device->id());
  if (control.size() == 1) return {nullptr, "none", "there is one rank"};
  const bool demanded = config.reduction.transport == "device";
  if (config.reduction.transport == "host") return {nullptr, "host", "reduction.transport is host"};
  std::string obstacle;
  const std::vector<std::string> told = control.all_gather(own_obstacle(config, session));
  for (size_t rank = 0; rank < told.size() && obstacle.empty(); ++rank) obstacle = told[rank];
  if (obstacle.empty()) obstacle = shared_card(session, control);
  if (obstacle.empty()) {
    const bool beside = (session.device->info().abilities & LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE) != 0;
    try {
      return {std::make_unique<Communicator>(
                  *session.device, session.collectives, control,
                  CommunicatorConfig{.name = "gradients", .timeout = collective_timeout(config)}),
              "device",
              fmt::format("collectives of {}, {}", session.device->id(),
                          beside ? "beside what the model computes"
                                 : "after backward, on the stream that the model computes on")};
    } catch (const Error& error) {
      obstacle = error.what();
      if (control.rank() == 0 && !demanded) log::warning("gradients are summed on the host: {}", obstacle);
    }
  }
  if (demanded)
    fail(Exit::kUnavailable,
         "reduction.transport: expected the collectives of {}, as the job says, but {}; write \"auto\" or \"host\"",
         session.device->id(), obstacle);
  return {nullptr, "host", obstacle};
}

}  // namespace lf
