// What a model reads and adds to where it computes in the host's memory on a device that has its own ([device]
// op_fallback = "warn"): copies of the store's values and gradients. A micro-batch adds to gradients that were brought
// over before it, so every sum has the terms and the order that it has where the memory is the host's.
#pragma once

#include <cstddef>
#include <vector>

#include "model/parameter_store.h"

namespace lf {

class HostCopies {
 public:
  // Both outlive it; the device's memory is not the host's.
  HostCopies(const ParameterStore& store, const Device& device);

  // As the store's, but of the copies; valid as long as this object.
  lf_tensor value_view(size_t parameter);
  lf_tensor gradient_view(size_t parameter);

  // All wait until they are done. After the values changed; before a micro-batch; after a unit's backward.
  void fetch_values();
  void fetch_gradients();
  void send_gradients(size_t unit_index) const;

 private:
  std::byte* value_at(const ParameterSlot& slot);

  const ParameterStore& store_;
  const Device& device_;
  const int64_t item_bytes_;
  bool frozen_are_there_ = false;           // they never change
  std::vector<std::byte> values_, frozen_;  // at the offsets of the store
  std::vector<float> gradients_;
};

}  // namespace lf
