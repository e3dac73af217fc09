// A look at the data before training: a bounded number of samples, spread evenly over all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/model_calls.h"

namespace lf {

struct Survey {
  uint64_t looked_at = 0, bad = 0, too_long = 0, cut = 0;
  std::string first_bad;               // "file:line: reason"
  int64_t shortest = 0, longest = 0;   // tokens of those that are not bad, before any cut
  std::vector<AtomFeatures> usable;    // as they would be trained on, in the order of the data set
  std::vector<uint64_t> usable_index;  // of each, in the data set

  int64_t rows() const;  // of the usable ones together
  double loss_weight() const;
  double mean_rows() const {
    return usable.empty() ? 0 : static_cast<double>(rows()) / static_cast<double>(usable.size());
  }
};

// From texts and headers of files; nothing is decoded. Throws what is not a sample's own fault.
Survey survey(const Dataset& dataset, const ModelCalls& model, const DataSection& options, uint64_t most);

// Throws lf::Error where no sample that was looked at can be trained on, or so many are bad that data.max_bad would end
// the run: kBadData, and kConfig where it is data.max_tokens that leaves nothing.
void require_trainable(const Survey& survey, const DataSection& options);

// What one step of all ranks takes, if all samples are like those looked at.
struct StepSize {
  double samples = 0, passes = 0;  // of the data set
  uint64_t bytes_per_rank = 0;     // of collated samples in memory at once: this step and those loaded ahead
};
// Collates one usable sample to see how large it is.
StepSize step_size(const Survey& survey, const Dataset& dataset, const ModelCalls& model, const DataSection& options,
                   int ranks);
// What data.max_bad will do to a run that meets `samples` of `size`, each pass counting anew. Throws kBadData where the
// run will end by it: by what was seen alone, or because so many bad ones among those looked at come by chance less
// than once in a thousand jobs that may go on. Else empty, or a warning where the share seen is above data.max_bad.
std::string foreseen_bad(const Survey& survey, const DataSection& options, uint64_t size, double samples);
// Empty unless a step takes more than one pass over the data, or `host_bytes` cannot hold the steps of `local_ranks`.
std::string step_size_warning(const StepSize& step, const DataSection& options, int local_ranks, uint64_t host_bytes);

}  // namespace lf
