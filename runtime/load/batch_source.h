// Where the samples of a step come from, and how those that the plan gives to this rank get here.
//
// Three kinds. Addressable data: every rank reads what it was given, nothing moves between ranks. The same with whole
// micro-batches as what is planned, instead of samples. Streams: whoever has read a sample sends it to who trains it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "load/dealer.h"
#include "load/model_calls.h"
#include "load/packing.h"
#include "load/sample_stream.h"
#include "load/workers.h"

namespace lf {

// samples[rank][micro-batch]: indices into the step's samples.
using Shares = std::vector<std::vector<std::vector<uint32_t>>>;

// The samples of this rank's share of one step. Thread-safe; what it gave is valid for its lifetime.
class StepSamples {
 public:
  virtual ~StepSamples() = default;
  // index: into PackedStep::samples, of this rank's share. Throws BadSample.
  virtual Sample sample(uint32_t index) const = 0;
};

// Used by the loader's thread, the same calls in the same order on every rank.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // All samples in the run's global order, judged by whoever can read them.
  virtual SampleStream& samples() = 0;

  // True: micro-batches stay as they were packed, and a plan only says which rank trains them when.
  virtual bool whole_packs() const { return false; }

  // Gathers nothing and fails on all ranks alike, or on none.
  virtual std::shared_ptr<const StepSamples> fetch(int64_t step, const PackedStep& packed, const Shares& shares) = 0;
};

// Files whose samples are reached by their index; whole packs with balance.unit = "pack".
std::unique_ptr<BatchSource> addressable_source(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers);

// Pipes and archives, read once. Stream i is read by rank i % ranks; the global order takes one sample from each in
// turn, whatever the number of ranks. `stopped` ends waiting for a pipe.
std::unique_ptr<BatchSource> stream_source(const LoaderInputs& inputs, const ModelCalls& model, Workers& workers,
                                           std::function<bool()> stopped);

// Who trains what: the dealer's plan of the step's samples, or of its micro-batches as if each were one sample.
Deal deal_step(const BatchSource& source, Dealer& dealer, const ModelCalls& model, const PackedStep& packed,
               int64_t step);

// Equal on every rank where all plan alike: of the step, its samples and their shares.
uint64_t hash_of(int64_t step, const PackedStep& packed, const Shares& shares);

}  // namespace lf
