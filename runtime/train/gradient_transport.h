// Where the gradients of several ranks are summed: on their cards, by the device plugin's collectives, or on the host.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "config/job.h"
#include "model/communicator.h"
#include "train/session.h"

namespace lf {

struct GradientTransport {
  std::unique_ptr<Communicator> communicator;  // of the cards; null: the host's group sums
  std::string word;                            // "device", "host", "none"
  std::string reason;                          // one line, for the log and the run record
};

// By [reduction] transport. "auto" is the cards, where every rank has one of its own and can be asked whether a sum is
// done, else the host, and why. Every rank calls it; all take the same. The session outlives it. Throws kUnavailable
// where "device" cannot be had.
GradientTransport choose_transport(const JobConfig& config, const Session& session, Exchange& control);

// Of a device that is the host itself: throws kUnavailable where the job demands sums on cards.
void require_card_to_sum_on(const JobConfig& config, std::string_view host_device);

}  // namespace lf
