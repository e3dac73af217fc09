// Where master weights and AdamW's moments are: in the memory of the device that models compute on, or in the host's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "config/job.h"
#include "model/parameter_store.h"
#include "optimizer/adamw.h"
#include "train/session.h"

namespace lf {

struct OptimizerMemory {
  bool on_device = false;
  std::string word;    // "device", "host"
  std::string reason;  // one line, for the log and the run record
};

// By [optimizer] memory. "auto" is the device where every rank's has room for the state beside values and gradients,
// and a trial update by its own operators gives the host's numbers; else the host, and why. Every rank calls it; all
// take the same, since replicas must not drift apart by roundings. Throws kUnavailable where "device" cannot be had.
OptimizerMemory choose_optimizer_memory(const JobConfig& config, const Session& session, const Freezing& freezing,
                                        Exchange& control);

// Of a device whose memory is the host's: throws kUnavailable where the job demands the device's.
void require_memory_beside_the_hosts(const JobConfig& config, std::string_view host_device);

// Over the store, whose state is where `choose_optimizer_memory` said.
AdamW make_optimizer(const JobConfig& config, const Device& device, const ParameterStore& store,
                     const Freezing& freezing, int threads);

}  // namespace lf
