// What one rank sends another for one step: samples that it has read and the other trains.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/media/held_media.h"

namespace lf {

// A sample with the media that came with it, wherever it is.
struct CarriedSample {
  Sample sample;
  std::shared_ptr<const HeldMedia::Lease> media;
};

// Which step of which plan a message belongs to.
struct PlanStamp {
  int64_t step = 0;
  uint64_t hash = 0;
  bool operator==(const PlanStamp&) const = default;
};

// samples: by their index in the step.
std::string write_shipment(const PlanStamp& stamp, const std::map<uint32_t, CarriedSample>& samples);

// Adds what rank `from` sent to `out`; its media are held by `held` from here on. The order in which messages are read
// does not matter. Throws kBug, naming both ranks and both stamps, where the sender is at another step or has made
// another plan: before anything of it is used.
void read_shipment(const std::string& message, const PlanStamp& stamp, int from, int here, HeldMedia& held,
                   std::map<uint32_t, CarriedSample>& out);

// Of every rank, as gathered. Throws kBug where one differs from this rank's.
void check_stamp(const PlanStamp& theirs, const PlanStamp& ours, int from, int here);

}  // namespace lf
