// What both ways of reducing share: which units are done, and which buckets may leave. Internal to reduction.
#pragma once

#include <numeric>
#include <vector>

#include "reduction/reduction.h"

namespace lf {

class BucketReducer : public Reducer {
 public:
  explicit BucketReducer(ReducerConfig config);
  void begin_step(std::span<const int64_t> leaves_per_rank) final;
  void unit_done(uint32_t unit) final;
  void leaf_done() final;
  ReducedStep finish() final;

 protected:
  virtual void start_step() {}
  virtual void clear_unit(const GradientUnit& unit);  // its gradients, before the step
  virtual void backward_done() {}                     // of this rank's last leaf
  virtual void keep_leaf(int64_t leaf) = 0;           // after a leaf of this rank that is not its last
  virtual void launch(const Bucket& bucket) = 0;      // all of it is there; called in bucket order, on every rank
  virtual void complete() = 0;                        // until all buckets hold the sums

  float* at(const Bucket& bucket) const { return config_.gradients[bucket.buffer].data() + bucket.offset; }
  bool alone() const { return config_.group->size() == 1; }

  const ReducerConfig config_;
  const std::vector<Bucket> buckets_;
  std::vector<int64_t> first_leaf_;  // per rank, and the number of all leaves at the end

 private:
  int64_t own_leaves() const;
  void launch_ready(bool all);

  std::vector<uint8_t> touched_, done_, dirty_;  // per unit: reached in this step; complete on this rank; not zero
  int64_t leaf_ = 0;                             // of this rank's, the current one
  size_t launched_ = 0;
  uint32_t done_prefix_ = 0;
};

std::unique_ptr<Reducer> make_fast_reducer(ReducerConfig config);
std::unique_ptr<Reducer> make_fixed_reducer(ReducerConfig config);

}  // namespace lf
