#include "load/estimate.h"

#include <algorithm>
#include <cmath>

#include "load/packing.h"
#include "load/sample_stream.h"
#include "load/workers.h"

namespace lf {

StepEstimate estimate_steps(const LoaderInputs& inputs, uint64_t most) {
  const DataSection& options = inputs.config->data;
  const uint64_t begin = inputs.position.samples_seen, end = inputs.max_samples;
  if (end <= begin || most == 0) return {.steps = 0, .samples_read = 0, .exact = true};
  const uint64_t stop = std::min(end, begin + most);

  const ModelCalls model(inputs.api, inputs.model);
  Workers workers(std::max(1, options.workers));
  GatheredStream stream(
      {*inputs.dataset, model, options, Order(inputs.dataset->size(), inputs.config->job.seed, options.shuffle),
       *inputs.exchange, workers},
      begin, stop);
  const PackRules rules{.max_rows = options.max_tokens,
                        .micro_batches = static_cast<uint32_t>(options.micro_batches * inputs.exchange->size()),
                        .packing = options.packing,
                        .epoch = inputs.dataset->size(),
                        .max_bad = 1};
  StepEstimate out{.steps = 0, .samples_read = stop - begin, .exact = stop == end};
  DataPosition position = inputs.position;
  uint64_t packed = begin;  // up to the last full step
  int64_t full = 0;
  while (position.samples_seen < stop) {
    const PackedStep step = pack_step(stream, rules, position);
    position = step.after;
    ++out.steps;
    if (step.last) break;
    ++full;
    packed = position.samples_seen;
  }
  if (out.exact) return out;
  const double per_step = full > 0 ? static_cast<double>(packed - begin) / static_cast<double>(full)
                                   : static_cast<double>(stop - begin) / static_cast<double>(out.steps);
  out.steps = std::max<int64_t>(1, std::llround(std::ceil(static_cast<double>(end - begin) / per_step)));
  return out;
}

}  // namespace lf
