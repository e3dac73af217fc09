#include "load/deal.h"

namespace lf {
namespace {

BalancePart make_part(const PackedStep& step, const ModelCalls& model, uint32_t component, int32_t per_rank) {
  const ComponentShape& shape = model.components()[component];
  BalancePart part;
  part.name = shape.name;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const AtomFeatures& features = step.samples[i].features;
    for (uint32_t atom = 0; atom < features.atoms[component]; ++atom) {
      const double* numbers = features.numbers[component].data() + size_t{atom} * shape.n_features;
      part.sample.push_back(i);
      part.seconds.push_back(model.weight(component, numbers));
      part.rows.push_back(static_cast<int64_t>(numbers[0]));
      part.bytes.push_back(0);
      part.arrival_replica.push_back(static_cast<int32_t>(step.micro_batch[i]) / per_rank);
      part.arrival_micro_batch.push_back(static_cast<int32_t>(step.micro_batch[i]) % per_rank);
    }
  }
  return part;
}

}  // namespace

std::vector<std::vector<std::vector<uint32_t>>> deal(const PackedStep& step, const ModelCalls& model,
                                                     const LoaderInputs& inputs, int64_t step_number, int32_t ranks) {
  const DataSection& options = inputs.config->data;
  const auto per_rank = static_cast<int32_t>(options.micro_batches);
  if (inputs.balancer == nullptr) {
    std::vector<std::vector<std::vector<uint32_t>>> samples(ranks, std::vector<std::vector<uint32_t>>(per_rank));
    for (uint32_t i = 0; i < step.samples.size(); ++i)
      samples[step.micro_batch[i] / per_rank][step.micro_batch[i] % per_rank].push_back(i);
    return samples;
  }
  BalanceInput input;
  input.step = step_number;
  input.seed = inputs.config->job.seed;
  input.replicas = ranks;
  input.micro_batches = per_rank;
  input.n_samples = step.samples.size();
  for (uint32_t c = 0; c < model.components().size(); ++c) input.parts.push_back(make_part(step, model, c, per_rank));
  input.parts.back().row_limit = options.max_tokens;
  return make_plan(inputs.balancer, inputs.policy, inputs.config->balance.policy, input).samples;
}

}  // namespace lf
