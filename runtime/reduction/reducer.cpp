#include "reduction/reducer.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "reduction/flat_ops.h"

namespace lf {
namespace {

ReducerConfig checked(ReducerConfig config) {
  if (config.group == nullptr || config.bucket_bytes < 4 || config.threads < 1) {
    fail(Exit::kBug, "reducer: needs a group, buckets of at least 4 bytes and a thread");
  }
  for (const GradientUnit& unit : config.units) {
    if (unit.buffer >= config.gradients.size() || unit.offset < 0 || unit.length < 0 ||
        unit.offset + unit.length > static_cast<int64_t>(config.gradients[unit.buffer].size())) {
      fail(Exit::kBug, "reducer: unit [{}, {}) lies outside of gradient buffer {}", unit.offset,
           unit.offset + unit.length, unit.buffer);
    }
  }
  return config;
}

}  // namespace

BucketReducer::BucketReducer(ReducerConfig config)
    : config_(checked(std::move(config))),
      buckets_(cut_into_buckets(config_.units, config_.bucket_bytes / static_cast<int64_t>(sizeof(float)))),
      touched_(config_.units.size()),
      done_(config_.units.size()),
      dirty_(config_.units.size(), 1) {}

int64_t BucketReducer::own_leaves() const {
  const auto rank = static_cast<size_t>(config_.group->rank());
  return first_leaf_[rank + 1] - first_leaf_[rank];
}

void BucketReducer::begin_step(std::span<const int64_t> leaves_per_rank) {
  if (leaves_per_rank.size() != static_cast<size_t>(config_.group->size())) {
    fail(Exit::kBug, "reducer: expected the leaves of {} ranks, got {}", config_.group->size(), leaves_per_rank.size());
  }
  first_leaf_.assign(1, 0);
  for (int64_t leaves : leaves_per_rank) first_leaf_.push_back(first_leaf_.back() + leaves);
  for (size_t i = 0; i < config_.units.size(); ++i)
    if (dirty_[i] && config_.units[i].length > 0) clear_unit(config_.units[i]);
  std::fill(touched_.begin(), touched_.end(), 0);
  std::fill(done_.begin(), done_.end(), 0);
  std::fill(dirty_.begin(), dirty_.end(), 1);  // until finish() knows better
  leaf_ = 0;
  launched_ = 0;
  done_prefix_ = 0;
  start_step();
}

void BucketReducer::clear_unit(const GradientUnit& unit) {
  clear(config_.gradients[unit.buffer].data() + unit.offset, unit.length, config_.threads);
}

void BucketReducer::unit_done(uint32_t unit) {
  touched_.at(unit) = 1;
  if (leaf_ + 1 != own_leaves()) return;
  done_[unit] = 1;
  launch_ready(false);
}

void BucketReducer::leaf_done() {
  if (leaf_ >= own_leaves()) {
    fail(Exit::kBug, "reducer: rank {} has {} leaves in this step, and a further one came", config_.group->rank(),
         own_leaves());
  }
  if (leaf_ + 1 < own_leaves()) {
    keep_leaf(first_leaf_[static_cast<size_t>(config_.group->rank())] + leaf_);
  } else {
    backward_done();
    launch_ready(true);  // units that the last leaf did not reach
  }
  ++leaf_;
}

// One order on all ranks, whatever finishes first: a bucket waits for those before it.
void BucketReducer::launch_ready(bool all) {
  while (done_prefix_ < done_.size() && (done_[done_prefix_] || config_.units[done_prefix_].length == 0))
    ++done_prefix_;
  while (launched_ < buckets_.size() && (all || buckets_[launched_].units_needed <= done_prefix_)) {
    launch(buckets_[launched_++]);
  }
}

ReducedStep BucketReducer::finish() {
  if (leaf_ != own_leaves()) {
    fail(Exit::kBug, "reducer: rank {} finished after {} of its {} leaves", config_.group->rank(), leaf_, own_leaves());
  }
  const auto start = std::chrono::steady_clock::now();
  launch_ready(true);
  Ticket presence = config_.group->all_reduce_async(touched_.data(), static_cast<int64_t>(touched_.size()), LF_DTYPE_U8,
                                                    LF_REDUCE_MAX);
  complete();
  presence.wait();
  dirty_ = touched_;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return {touched_, spent.count()};
}

std::unique_ptr<Reducer> make_reducer(ReducerConfig config) {
  return config.mode == ReductionMode::kFixed ? make_fixed_reducer(std::move(config))
                                              : make_fast_reducer(std::move(config));
}

}  // namespace lf
