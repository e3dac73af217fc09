#include "reduction/on_device.h"

#include <utility>

#include "core/error.h"

namespace lf {
namespace {

// Lengths and offsets are what the buckets are cut by; the host does not touch them through it.
ReducerConfig over_the_device(ReducerConfig config, const ParameterStore& store) {
  config.gradients = {
      {reinterpret_cast<float*>(store.device_gradients()), static_cast<size_t>(store.trained_elements())}};
  return config;
}

}  // namespace

DeviceReducer::DeviceReducer(const Device& device, const ParameterStore& store, Communicator* communicator,
                             ReducerConfig config)
    : BucketReducer(over_the_device(std::move(config), store)),
      device_(device),
      store_(store),
      communicator_(communicator),
      to_host_(!store.state_on_device()) {
  if (communicator_ == nullptr) {
    if (to_host_ || config_.group->size() != 1)
      fail(Exit::kBug, "reduction on {}: without a communicator only one rank's, which stay there", device.id());
    return;
  }
  if ((device.info().abilities & LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE) != 0) sums_.emplace(device);
  if (to_host_) {
    copies_.emplace(device);
    idle_.emplace(device);
  }
  for (size_t i = 0; i < buckets_.size(); ++i)
    events_.push_back({Device::Event(device), Device::Event(device), Device::Event(device)});
}

DeviceReducer::~DeviceReducer() {
  if (in_step_ && communicator_ != nullptr) communicator_->abort();
}

void DeviceReducer::start_step() {
  in_step_ = true;
  enqueued_ = 0;
  copied_ = {};
}

// What the last step left there; behind its copies, which finish() has waited for, or its update.
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
  communicator_->all_reduce_f32(device_at(bucket.offset), static_cast<uint64_t>(bucket.length), stream);
  events.summed.record(stream);
  if (!to_host_) return;
  device_.wait_in(copies_->handle(), events.summed);
  device_.download(store_.gradients().data() + bucket.offset, device_at(bucket.offset), bytes_of(bucket.length),
                   copies_->handle());
  events.arrived.record(copies_->handle());
  copied_.all += bytes_of(bucket.length);
}

void DeviceReducer::backward_done() {
  if (!to_host_) return;
  for (size_t i = 0; i < enqueued_ && events_[i].arrived.passed(); ++i) copied_.hidden += bytes_of(buckets_[i].length);
}

void DeviceReducer::complete() {
  if (communicator_ == nullptr) {  // the update follows backward on the stream of both
    in_step_ = false;
    return;
  }
  try {
    while (enqueued_ < buckets_.size()) enqueue(buckets_[enqueued_]);
    if (to_host_) {
      // The copies are in one order. And the optimizer writes next where the last step's values may still be read from,
      // if this rank had no gradients.
      if (enqueued_ > 0) events_[enqueued_ - 1].arrived.wait(/*for_peers=*/true);
      idle_->record(nullptr);
      idle_->wait();
    } else if (enqueued_ > 0) {
      events_[enqueued_ - 1].summed.wait(/*for_peers=*/true);
    }
  } catch (const Error&) {
    communicator_->require_sound();  // the cause, of which this would be a consequence
    throw;
  }
  communicator_->require_sound();  // an aborted sum lets its waiters go
  in_step_ = false;
}

}  // namespace lf
