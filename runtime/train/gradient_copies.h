// Gradients on their way from a device to the host's buffers while backward still runs: a stage between backward and a
// reducer that works on host memory. Copies go on a stream of their own, behind the unit that made them; the reducer
// hears of a unit once its gradients have arrived, in the order of backward. Where the optimizer is on the device, the
// sums go back there.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "model/device.h"
#include "model/parameter_store.h"
#include "reduction/reduction.h"

namespace lf {

class GradientCopies final : public Reducer {
 public:
  // `units` are the reducer's, of the store's one gradient buffer. `each_leaf`: the reducer takes every micro-batch's
  // gradients apart (mode "fixed"), else they add up on the device. Device and store outlive it.
  GradientCopies(const Device& device, const ParameterStore& store, std::vector<GradientUnit> units,
                 std::unique_ptr<Reducer> reducer, int rank, bool each_leaf);

  void begin_step(std::span<const int64_t> leaves_per_rank) override;
  void unit_done(uint32_t unit) override;
  void leaf_done() override;
  // exposed_seconds is what backward hid neither of the copies nor of the reduction.
  ReducedStep finish() override;

  // Of the last step.
  CopiedBytes copied() const { return {copied_bytes_, hidden_bytes_}; }

 private:
  struct UnitEvents {
    Device::Event made, arrived;
  };
  std::byte* device_at(const GradientUnit& unit) const { return store_.device_gradients() + unit.offset * 4; }
  uint64_t bytes_of(const GradientUnit& unit) const { return static_cast<uint64_t>(unit.length) * 4; }
  bool copies_this_leaf() const { return each_leaf_ || leaf_ + 1 >= own_leaves_; }
  void start_copy(uint32_t unit);
  void pass_on_front();
  void send_back(const std::vector<uint8_t>& has_gradient);

  const Device& device_;
  const ParameterStore& store_;
  const std::vector<GradientUnit> units_;
  const std::unique_ptr<Reducer> reducer_;
  const size_t rank_;
  const bool each_leaf_;
  std::optional<Device::Stream> stream_;  // none: the device has none, and each copy is waited for
  std::optional<Device::Event> idle_;
  std::vector<UnitEvents> events_;  // per unit

  std::vector<uint8_t> dirty_;   // per unit: the device's gradients are not zero
  std::vector<uint8_t> copied_;  // per unit: in this leaf
  std::deque<uint32_t> under_way_;
  int64_t own_leaves_ = 0, leaf_ = 0;
  uint64_t copied_bytes_ = 0, hidden_bytes_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace lf
