#include "check/memory_estimate.h"

#include <algorithm>
#include <bit>

#include "lf/plugin_api/model.h"

namespace lf {
namespace {

// LibTorch, the plugins and their libraries, measured in a worker before its model is made (x86-64, CPU).
constexpr uint64_t kProcessBytes = 150'000'000;

struct Activations {
  int64_t saved = 0, working = 0;
  int64_t total() const { return saved + working; }
};

// Kept from forward to backward over all units, and the most that one unit needs on top of it.
Activations activations(const JobConfig& config, const Model& model, const Freezing& freezing,
                        const BatchFeatures& batch) {
  const Description& description = model.description();
  Activations sum;
  for (uint32_t c = 0; c < description.components.size(); ++c) {
    if (batch[c].empty()) continue;
    const bool no_graph = c == 0 && freezing.all_frozen(description.components[c]);
    for (uint32_t unit = 0; unit < description.components[c].n_units; ++unit) {
      const lf_cost cost = model.cost(c, unit, batch[c]);
      // Recomputed units keep their input only, and one of them at a time is run again.
      const bool whole = config.memory.recompute == "whole";
      const int64_t kept = no_graph ? 0 : whole ? std::min(cost.out_bytes, cost.saved_bytes) : cost.saved_bytes;
      sum.saved += kept;
      sum.working = std::max(sum.working, cost.peak_bytes + (whole ? cost.saved_bytes : 0));
    }
  }
  return sum;
}

uint64_t item_bytes(const JobConfig& config) { return config.precision.compute == "bf16" ? 2 : 4; }

// Buffers of as many elements as parameters are trained, and the frozen values.
std::vector<MemoryPart> state_parts(const JobConfig& config, uint64_t trained, uint64_t frozen,
                                    const std::optional<StatePlaces>& places) {
  const bool bf16 = config.precision.compute == "bf16", averaged = config.ema.decay > 0;
  const uint64_t item = item_bytes(config);
  const bool card = places.has_value(), there = card && places->on_device;
  std::vector<MemoryPart> parts;
  if (!there || bf16) parts.push_back({"master weights", trained * 4, there});
  if (card) parts.push_back({"weights that models read", trained * item, true});
  if (!there && bf16) parts.push_back({"compute weights", trained * 2, false});
  parts.push_back({"frozen weights", frozen * item, card});
  if (card) parts.push_back({"gradients", trained * 4, true});
  if (!there || places->host_gradients)
    parts.push_back({card ? "gradients on the host" : "gradients", trained * 4, false});
  parts.push_back({"optimizer moments", trained * 8, there});
  parts.push_back({"moving average (rank 0)", averaged ? trained * 4 : 0, there});
  return parts;
}

}  // namespace

MemorySums sums_of(const std::vector<MemoryPart>& parts) {
  MemorySums sums;
  for (const MemoryPart& part : parts) (part.on_device ? sums.device : sums.host) += part.bytes;
  return sums;
}

std::vector<MemoryPart> estimate_memory(const JobConfig& config, const Model& model, const Freezing& freezing,
                                        const std::vector<BatchFeatures>& batches, int ranks,
                                        const std::optional<StatePlaces>& places, ModelPlace place) {
  const Description& description = model.description();
  uint64_t trained = 0, frozen = 0;
  for (size_t p = 0; p < description.parameters.size(); ++p) {
    if (description.parameters[p].tied_to >= 0) continue;
    (freezing.frozen[p] ? frozen : trained) += static_cast<uint64_t>(element_count(description.parameters[p]));
  }
  std::vector<MemoryPart> parts = state_parts(config, trained, frozen, places);
  const bool copied = places && place == ModelPlace::kHost;
  if (copied) parts.push_back({"copies that the model reads", (trained + frozen) * item_bytes(config) + trained * 4});
  if (config.reduction.mode == "fixed") {
    // Partial sums of the canonical tree, see reduction/reduction.h.
    const auto leaves = static_cast<uint64_t>(config.data.micro_batches);
    parts.push_back({"reduction in fixed order", trained * 4 * (std::bit_width(leaves) + (ranks > 1 ? 1u : 0u))});
  }
  parts.push_back({"checkpoint snapshot (rank 0)", trained * (config.ema.decay > 0 ? 16 : 12)});
  Activations heaviest;
  for (const BatchFeatures& batch : batches) {
    const Activations one = activations(config, model, freezing, batch);
    if (one.total() > heaviest.total()) heaviest = one;
  }
  const bool on_card = places && !copied;
  parts.push_back({"activations", static_cast<uint64_t>(heaviest.saved), on_card});
  parts.push_back({"working set of a layer", static_cast<uint64_t>(heaviest.working), on_card});
  parts.push_back({"process", kProcessBytes});
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

}  // namespace lf
