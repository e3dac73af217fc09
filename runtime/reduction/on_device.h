// Gradients summed over the ranks where they are made: on the cards, by the device plugin's collectives. A bucket is
// summed behind the units that made it and, where the optimizer is on the host, travels to the host's buffer behind its
// sum; with finish() the optimizer finds it. Leaves add up on the device, so mode is "fast".
//
// Where the device has collectives beside compute, all of this happens while backward still runs. Where it has not,
// sums wait for finish(): in the midst of backward one would make this rank's backward as long as its slowest peer's,
// which is what balancing learns from.
#pragma once

#include <optional>
#include <vector>

#include "model/communicator.h"
#include "model/parameter_store.h"
#include "reduction/reducer.h"

namespace lf {

class DeviceReducer final : public BucketReducer {
 public:
  // The store's one buffer of gradients is summed on the device, whatever config.gradients names, and copied to the
  // host where the store's state is there. config.group says on the host which units any rank reached. Communicator
  // null: of one rank, whose state is on the device; then nothing moves, and the device needs no streams. Device, store
  // and communicator outlive it.
  DeviceReducer(const Device& device, const ParameterStore& store, Communicator* communicator, ReducerConfig config);
  ~DeviceReducer() override;  // in the middle of a step it ends the communicator: nothing waits for peers any longer

  // Of the last step: bytes brought to the host, and those of them that were there before backward ended.
  CopiedBytes copied() const { return copied_; }

 private:
  struct BucketEvents {
    Device::Event made, summed, arrived;
  };
  std::byte* device_at(int64_t offset) const { return store_.device_gradients() + offset * 4; }
  static uint64_t bytes_of(int64_t length) { return static_cast<uint64_t>(length) * 4; }
  void start_step() override;
  void clear_unit(const GradientUnit& unit) override;
  void keep_leaf(int64_t) override {}
  void backward_done() override;
  void launch(const Bucket& bucket) override;
  void complete() override;
  void enqueue(const Bucket& bucket);

  const Device& device_;
  const ParameterStore& store_;
  Communicator* const communicator_;
  const bool to_host_;
  std::optional<Device::Stream> sums_;    // none: the default stream
  std::optional<Device::Stream> copies_;  // where they go to the host
  std::optional<Device::Event> idle_;
  std::vector<BucketEvents> events_;  // per bucket
  size_t enqueued_ = 0;
  bool in_step_ = false;
  CopiedBytes copied_;
};

}  // namespace lf
