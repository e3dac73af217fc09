#include "train/gradient_copies.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lf {

GradientCopies::GradientCopies(const Device& device, const ParameterStore& store, std::vector<GradientUnit> units,
                               std::unique_ptr<Reducer> reducer, int rank, bool each_leaf)
    : device_(device),
      store_(store),
      units_(std::move(units)),
      reducer_(std::move(reducer)),
      rank_(static_cast<size_t>(rank)),
      each_leaf_(each_leaf),
      dirty_(units_.size(), 0),
      copied_(units_.size(), 0) {
  if (!device.has_streams()) return;
  stream_.emplace(device);
  idle_.emplace(device);
  for (size_t i = 0; i < units_.size(); ++i) events_.push_back({Device::Event(device), Device::Event(device)});
}

void GradientCopies::begin_step(std::span<const int64_t> leaves_per_rank) {
  reducer_->begin_step(leaves_per_rank);
  for (size_t i = 0; i < units_.size(); ++i)
    if (dirty_[i] && units_[i].length > 0) device_.fill_zero(device_at(units_[i]), bytes_of(units_[i]), nullptr);
  std::fill(dirty_.begin(), dirty_.end(), 0);
  std::fill(copied_.begin(), copied_.end(), 0);
  under_way_.clear();
  own_leaves_ = leaves_per_rank[rank_];
  leaf_ = 0;
  copied_bytes_ = hidden_bytes_ = 0;
  waited_seconds_ = 0;
}

void GradientCopies::start_copy(uint32_t unit) {
  copied_[unit] = 1;
  const GradientUnit& range = units_[unit];
  copied_bytes_ += bytes_of(range);
  under_way_.push_back(unit);
  float* to = store_.gradients().data() + range.offset;
  if (!stream_) {
    if (range.length > 0) device_.download(to, device_at(range), bytes_of(range), nullptr);
    device_.synchronize();
    return;
  }
  if (range.length > 0) {
    events_[unit].made.record(nullptr);
    device_.wait_in(stream_->handle(), events_[unit].made);
    device_.download(to, device_at(range), bytes_of(range), stream_->handle());
  }
  events_[unit].arrived.record(stream_->handle());
}

void GradientCopies::pass_on_front() {
  reducer_->unit_done(under_way_.front());
  under_way_.pop_front();
}

void GradientCopies::unit_done(uint32_t unit) {
  dirty_[unit] = 1;
  if (!copies_this_leaf()) return reducer_->unit_done(unit);
  start_copy(unit);
  if (!stream_) return pass_on_front();
  while (!under_way_.empty() && events_[under_way_.front()].arrived.passed()) {
    hidden_bytes_ += bytes_of(units_[under_way_.front()]);
    pass_on_front();
  }
}

void GradientCopies::leaf_done() {
  if (copies_this_leaf()) {
    // Units that an earlier leaf reached and the last one did not; the reducer knows of them already.
    std::vector<uint32_t> late;
    for (uint32_t unit = 0; unit < units_.size(); ++unit)
      if (dirty_[unit] && !copied_[unit]) late.push_back(unit);
    const auto start = std::chrono::steady_clock::now();
    for (const uint32_t unit : under_way_)
      if (events_[unit].arrived.passed()) hidden_bytes_ += bytes_of(units_[unit]);
    for (; !under_way_.empty(); pass_on_front()) events_[under_way_.front()].arrived.wait();
    for (const uint32_t unit : late) start_copy(unit);
    if (stream_ && !under_way_.empty()) events_[under_way_.back()].arrived.wait();
    under_way_.clear();
    waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (each_leaf_ && leaf_ + 1 < own_leaves_)
      for (size_t i = 0; i < units_.size(); ++i)
        if (std::exchange(dirty_[i], 0) != 0 && units_[i].length > 0)
          device_.fill_zero(device_at(units_[i]), bytes_of(units_[i]), nullptr);
    std::fill(copied_.begin(), copied_.end(), 0);
  }
  reducer_->leaf_done();
  ++leaf_;
}

ReducedStep GradientCopies::finish() {
  // The optimizer writes next where the last step's values may still be read from, if this rank had no gradients.
  if (idle_) {
    idle_->record(nullptr);
    idle_->wait();
  } else {
    device_.synchronize();
  }
  ReducedStep step = reducer_->finish();
  if (store_.state_on_device()) send_back(step.has_gradient);
  step.exposed_seconds += waited_seconds_;
  return step;
}

// Enqueued before the update, which ends with a number that the host waits for.
void GradientCopies::send_back(const std::vector<uint8_t>& has_gradient) {
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!has_gradient[i] || units_[i].length == 0) continue;
    device_.upload(device_at(units_[i]), store_.gradients().data() + units_[i].offset, bytes_of(units_[i]), nullptr);
    dirty_[i] = 1;  // also where only another rank's backward came
  }
}

}  // namespace lf
