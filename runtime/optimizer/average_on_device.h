// The moving average of weights that are in a device's memory.
#pragma once

#include <memory>

#include "model/device.h"
#include "model/parameter_store.h"
#include "optimizer/weight_average.h"

namespace lf {

// Over a store whose state is on the device, in further memory there: a copy of its master values at first. The bits of
// the host's average where the device rounds as IEEE 754 says. Device and store outlive it. Throws kUnavailable where
// there is no room.
std::unique_ptr<AverageMemory> average_on_device(const Device& device, const ParameterStore& store);

}  // namespace lf
