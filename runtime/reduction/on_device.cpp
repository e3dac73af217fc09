#include "reduction/on_device.h"

#include <utility>

namespace lf {

DeviceReducer::DeviceReducer(const Device& device, const ParameterStore& store, Communicator& communicator,
                             ReducerConfig config)
    : BucketReducer(std::move(config)),
      device_(device),
      store_(store),
      communicator_(communicator),
      copies_(device),
      idle_(device) {
  if ((device.info().abilities & LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE) != 0) sums_.emplace(device);
  for (size_t i = 0; i < buckets_.size(); ++i)
    events_.push_back({Device::Event(device), Device::Event(device), Device::Event(device)});
}

DeviceReducer::~DeviceReducer() {
  if (in_step_) communicator_.abort();
}

void DeviceReducer::start_step() {
  in_step_ = true;
  enqueued_ = 0;
  copied_ = {};
}

// What the last step left there; behind its copies, which finish() has waited for.
void DeviceReducer::clear_unit(const GradientUnit& unit) {
  device_.fill_zero(device_at(unit.offset), bytes_of(unit.length), nullptr);
}

void DeviceReducer::launch(const Bucket& bucket) {
  if (sums_) enqueue(bucket);
}

void DeviceReducer::enqueue(const Bucket& bucket) {
  const BucketEvents& events = events_[enqueued_++];
  lf_stream_s* const stream = sums_ ? sums_->handle() : nullptr;
  if (sums_) {
    events.made.record(nullptr);
    device_.wait_in(stream, events.made);
  }
  communicator_.all_reduce_f32(device_at(bucket.offset), static_cast<uint64_t>(bucket.length), stream);
  events.summed.record(stream);
  device_.wait_in(copies_.handle(), events.summed);
  device_.download(at(bucket), device_at(bucket.offset), bytes_of(bucket.length), copies_.handle());
  events.arrived.record(copies_.handle());
  copied_.all += bytes_of(bucket.length);
}

void DeviceReducer::backward_done() {
  for (size_t i = 0; i < enqueued_ && events_[i].arrived.passed(); ++i) copied_.hidden += bytes_of(buckets_[i].length);
}

void DeviceReducer::complete() {
  try {
    while (enqueued_ < buckets_.size()) enqueue(buckets_[enqueued_]);
    // The copies are in one order. And the optimizer writes next where the last step's values may still be read from,
    // if this rank had no gradients.
    if (enqueued_ > 0) events_[enqueued_ - 1].arrived.wait();
    idle_.record(nullptr);
    idle_.wait();
  } catch (const Error&) {
    communicator_.require_sound();  // the cause, of which this would be a consequence
    throw;
  }
  communicator_.require_sound();  // an aborted sum lets its waiters go
  in_step_ = false;
}

}  // namespace lf
