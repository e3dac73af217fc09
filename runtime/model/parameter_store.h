// Where parameters live: flat buffers of the core, of which a model is lent views.
//
//   master    f32, trained parameters only: what the optimizer updates and checkpoints hold
//   compute   the stage's dtype; the same memory as master where that is f32
//   gradients f32, trained parameters only, same offsets as master
//   frozen    compute dtype
//
// On a device whose memory is not the host's, either the state is in device memory too: there master and compute are
// what models read (one buffer where compute is f32), gradients are optimized where they were made, and the host has a
// buffer for them only where they are summed there. Or master, compute and gradients are in (pinned) host memory, where
// they are reduced and optimized, and models get device copies of them: values go over after each update (publish),
// gradients come back as units finish (train/gradient_copies.h). Frozen values live on the device alone.
//
// Trained parameters lie by component, unit and table order (adapters after the unit's own), so a unit's gradients are
// one range, and so are a component's. Each begins at a multiple of 64 bytes; the gaps stay zero.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lf/plugin_api/tensor.h"
#include "model/description.h"
#include "model/device.h"
#include "model/float_range.h"

namespace lf {

// Which parameters are not trained, by index in Description::parameters.
struct Freezing {
  std::vector<bool> frozen;
  bool all_frozen(const Component& component) const;
};

// Shell patterns (* ? [...]) over parameter names and component names. Throws kConfig naming a pattern that matches
// nothing (with the nearest names), and where nothing is left to train. Buffers and dead parameters are never trained.
// Where the model has adapters, they are trained, and of its own parameters those alone that `also_train` matches (and
// no pattern freezes).
Freezing freeze(const Description& description, const std::vector<std::string>& patterns,
                const std::vector<std::string>& also_train = {});

struct ParameterSlot {
  size_t parameter = 0;  // index in Description::parameters
  size_t unit = 0;       // index in ParameterStore::units
  bool trained = false;
  int64_t offset = 0;  // elements, in master/compute/gradients if trained, else in frozen
  int64_t elements = 0;
};

struct UnitRange {
  uint32_t component = 0, unit = 0;
  int64_t begin = 0, end = 0;  // elements of the gradient buffer
};

// Of a device with memory of its own; elsewhere it says nothing.
struct StatePlaces {
  bool on_device = false;      // master values, and so the optimizer
  bool host_gradients = true;  // a buffer for them in the host's memory too; always where the state is there
};

class ParameterStore {
 public:
  // dtype: LF_DTYPE_F32 or LF_DTYPE_BF16. Description and device outlive the store.
  ParameterStore(const Description& description, const Freezing& freezing, const Device& device, int32_t dtype,
                 StatePlaces places = {});

  int32_t dtype() const { return dtype_; }
  // Own slots, tied parameters excluded, in buffer order.
  const std::vector<ParameterSlot>& slots() const { return slots_; }
  const ParameterSlot& slot(size_t parameter) const {
    return slots_[slot_of_[parameter]];
  }  // tied: of what it is tied to
  // Every unit of every component in forward order; units without trained parameters have empty ranges.
  const std::vector<UnitRange>& units() const { return units_; }
  const Description& description() const { return description_; }
  size_t unit_index(uint32_t component, uint32_t unit) const { return first_unit_[component] + unit; }

  bool state_on_device() const { return places_.on_device; }
  // In the host's memory; empty where that has none.
  std::span<float> master() const;
  std::span<float> gradients() const;
  // Null where the compute dtype is f32 (then master is what models read), and where the state is on the device.
  uint16_t* compute_bf16() const;

  // Borrowed views, valid as long as the store. The gradient of a frozen parameter is absent.
  lf_tensor value_view(size_t parameter) const;
  lf_tensor gradient_view(size_t parameter) const;

  void zero_gradients() const;
  // After the optimizer changed master and compute: what models read, in the order of the default stream. Nothing to do
  // where it changed the device's memory. The host's copy may change again once gradients of a later pass are back.
  void publish() const;
  // After master changed by other means than the optimizer (loading, initialisation): compute follows, and publish.
  void refresh_compute() const;
  // Gradients as models left them: the device's copy, null where it is the host's memory.
  std::byte* device_gradients() const { return device_gradients_.data(); }
  // What models read of the trained parameters, in the compute dtype; likewise.
  std::byte* device_values() const { return device_values_.data(); }
  // Null unless the state is on the device.
  std::byte* device_master() const;
  void fetch_gradients() const;  // all of them into gradients(); waits
  int64_t trained_elements() const { return trained_elements_; }
  uint64_t bytes() const;

  // Master values of one own, trained slot, wherever they live. What models read follows a write where the state is on
  // the device, elsewhere with refresh_compute.
  FloatRange master_range(const ParameterSlot& slot) const;
  // f32 values of one own slot, wherever they live; frozen bf16 values are widened.
  std::vector<float> values_f32(const ParameterSlot& slot) const;
  // Sets one own slot from f32 values (rounded to the compute dtype where frozen). publish follows the last of them.
  void set_values(const ParameterSlot& slot, std::span<const float> values) const;

 private:
  std::byte* compute_values() const {  // of the host
    return dtype_ == LF_DTYPE_F32 ? master_.data() : compute_.data();
  }
  void write_on_device(int64_t at, std::span<const float> values) const;  // master, and what models read

  const Description& description_;
  const Device& device_;
  int32_t dtype_;
  StatePlaces places_;
  std::vector<ParameterSlot> slots_;
  std::vector<size_t> slot_of_;  // by parameter
  std::vector<UnitRange> units_;
  std::vector<size_t> first_unit_;
  int64_t trained_elements_ = 0, frozen_elements_ = 0;
  Device::Memory master_, compute_, gradients_, frozen_;
  Device::Memory device_values_, device_gradients_;  // empty where the device's memory is the host's
  Device::Memory device_master_;                     // only of a state on the device that computes in bf16
};

}  // namespace lf
