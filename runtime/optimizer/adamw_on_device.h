// AdamW in the memory of the device that the models compute on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/device.h"
#include "model/parameter_store.h"
#include "optimizer/adamw_memory.h"

namespace lf {

// Over the buffers of a store whose state is on the device; both moments are further device memory of its own, zero at
// first. Device and store outlive it. Throws kUnavailable where there is no room.
std::unique_ptr<AdamWMemory> adamw_on_device(const Device& device, const ParameterStore& store,
                                             std::vector<ParameterRange> parameters);

struct AdamWTrial {
  std::string obstacle;     // what stands against it, with the device's own words; empty: nothing
  std::string seen;         // "an update of 4096 values there gave the host's bits"
  bool by_the_cpu = false;  // the device left some of the operators to the CPU
};

// A few updates of a few thousand values, there and on the host. Where the device leaves operators to the CPU
// ([device] op_fallback), it stops after the first unless `all`.
AdamWTrial try_adamw_on(const Device& device, bool all);

}  // namespace lf
