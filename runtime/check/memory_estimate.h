// What one rank will hold in memory, by part, before anything is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/job.h"
#include "model/description.h"
#include "model/parameter_store.h"
#include "plugins/model_on_device.h"

namespace lf {

struct MemoryPart {
  std::string name;
  uint64_t bytes = 0;
  bool on_device = false;  // in the memory of a card; else in the host's
};

struct MemorySums {
  uint64_t device = 0, host = 0;
};
MemorySums sums_of(const std::vector<MemoryPart>& parts);

// Atoms of one micro-batch, per component: n x features, row-major.
using BatchFeatures = std::vector<std::vector<double>>;

// State is arithmetic and exact; activations are what the model plugin states for the heaviest of `batches`. `places`:
// of a device with memory of its own (see model/parameter_store.h); none where all is the host's. `place`: where the
// model computes there.
std::vector<MemoryPart> estimate_memory(const JobConfig& config, const Model& model, const Freezing& freezing,
                                        const std::vector<BatchFeatures>& batches, int ranks,
                                        const std::optional<StatePlaces>& places, ModelPlace place);

}  // namespace lf
