// What one rank will hold in memory, by part, before anything is started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/job.h"
#include "model/description.h"
#include "model/parameter_store.h"

namespace lf {

struct MemoryPart {
  std::string name;
  uint64_t bytes = 0;
};

// Atoms of one micro-batch, per component: n x features, row-major.
using BatchFeatures = std::vector<std::vector<double>>;

// State is arithmetic and exact; activations are what the model plugin states for the heaviest of `batches`.
std::vector<MemoryPart> estimate_memory(const JobConfig& config, const Model& model, const Freezing& freezing,
                                        const std::vector<BatchFeatures>& batches, int ranks);

}  // namespace lf
