// Gradients summed over the ranks while backward still runs.
//
// A step: begin_step; for each own micro-batch (leaf) of this rank: backward, which calls unit_done as units complete,
// then leaf_done; finish. Between begin_step and finish the buffers belong to backward and the reducer; afterwards they
// hold the sums over all leaves of all ranks, the same bits on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/group.h"
#include "reduction/buckets.h"

namespace lf {

enum class ReductionMode {
  kFast,  // one all-reduce a bucket: bits depend on the number of ranks
  kFixed  // leaves are added in the order of tree.h: the same bits for any number of ranks, if leaves are dealt in
          // arrival order. Keeps up to log2(own leaves) + 1 copies of the gradients, and one more over several ranks
};

struct ReducerConfig {
  Group* group = nullptr;                   // of its own; outlives the reducer
  std::vector<std::span<float>> gradients;  // flat buffers
  std::vector<GradientUnit> units;          // in the order in which backward completes them; disjoint
  int64_t bucket_bytes = 16 << 20;
  ReductionMode mode = ReductionMode::kFast;
  int threads = 1;  // for adding and clearing
};

struct ReducedStep {
  std::vector<uint8_t> has_gradient;  // per unit: 1 where any rank's backward reached it in this step
  double exposed_seconds = 0;         // spent in finish(): what backward did not hide
};

// From a device to the host's buffers in one step, and the part of it that backward hid.
struct CopiedBytes {
  uint64_t all = 0, hidden = 0;
};

// One thread at a time. Errors of the group (kUnavailable) pass through; the reducer is of no use afterwards.
class Reducer {
 public:
  virtual ~Reducer() = default;
  // Every rank's number of leaves, by rank; those of rank r follow those of lower ranks. Clears the gradients.
  virtual void begin_step(std::span<const int64_t> leaves_per_rank) = 0;
  // The current leaf has been added to this unit's gradients. Not called for units that it does not reach.
  virtual void unit_done(uint32_t unit) = 0;
  virtual void leaf_done() = 0;
  virtual ReducedStep finish() = 0;
};

std::unique_ptr<Reducer> make_reducer(ReducerConfig config);

}  // namespace lf
