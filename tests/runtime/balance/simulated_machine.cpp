#include "runtime/balance/simulated_machine.h"

#include <algorithm>
#include <numeric>

namespace lf {

std::vector<ComponentTerms> text_terms() { return {{"language", {{"language.linear", 1}, {"language.attention", 1}}}}; }

StepAtoms draw_step(const std::string& distribution, int64_t step, int32_t replicas, int32_t micro_batches,
                    int64_t pack, uint64_t seed) {
  const WorkCost cost = named_cost("8B");
  Scenario scenario{.replicas = replicas, .micro_batches = micro_batches, .cap = 1, .pack = pack};
  const int64_t room = int64_t{replicas} * micro_batches * pack;
  std::vector<WorkSample> samples =
      synthetic_samples(distribution, static_cast<size_t>(room / 100), seed * 7919 + step);
  samples.resize(samples_per_step(samples, cost, scenario));
  const BalanceInput input = scenario_input(samples, cost, scenario);

  StepAtoms atoms;
  atoms.step = step;
  atoms.n_samples = input.n_samples;
  atoms.micro_batches = micro_batches;
  atoms.objective = LF_OBJECTIVE_MAKESPAN;
  const BalancePart& part = input.parts.back();
  AtomTable table;
  table.row_limit = part.row_limit;
  table.sample = part.sample;
  table.rows = part.rows;
  table.bytes = part.bytes;
  table.arrival_replica = part.arrival_replica;
  table.arrival_micro_batch = part.arrival_micro_batch;
  for (const int64_t rows : part.rows) {
    const auto length = static_cast<double>(rows);
    table.amounts.push_back(cost.decoder.layers * 2 * cost.decoder.layer_parameters * length);
    table.amounts.push_back(cost.decoder.layers * 2 * cost.decoder.width * length * length);
  }
  atoms.components.push_back(std::move(table));
  return atoms;
}

std::vector<double> amounts_of(const StepAtoms& atoms, const std::vector<lf_assignment>& places, int32_t replicas) {
  std::vector<double> sums(static_cast<size_t>(replicas) * 2, 0.0);
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t t = 0; t < 2; ++t) sums[places[i].replica * 2 + t] += atoms.components[0].amounts[2 * i + t];
  return sums;
}

std::vector<double> micro_batch_amounts_of(const StepAtoms& atoms, const std::vector<lf_assignment>& places,
                                           int32_t replicas) {
  std::vector<double> sums(static_cast<size_t>(replicas) * atoms.micro_batches * 2, 0.0);
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t t = 0; t < 2; ++t)
      sums[(static_cast<size_t>(places[i].replica) * atoms.micro_batches + places[i].micro_batch) * 2 + t] +=
          atoms.components[0].amounts[2 * i + t];
  return sums;
}

std::vector<double> seconds_of(const Machine& machine, const std::vector<double>& amounts, int32_t micro_batches,
                               Random* random) {
  std::vector<double> seconds;
  const size_t n = amounts.size() / 2;
  for (size_t r = 0; r < n; ++r) {
    double time =
        machine.linear * amounts[2 * r] + machine.attention * amounts[2 * r + 1] + machine.fixed * micro_batches;
    if (!machine.speed.empty()) time /= machine.speed[r * machine.speed.size() / n];
    if (random != nullptr) time *= 1 + machine.noise * random->normal();
    seconds.push_back(time);
  }
  return seconds;
}

std::vector<lf_assignment> arrival_of(const StepAtoms& atoms) {
  std::vector<lf_assignment> places;
  const AtomTable& table = atoms.components[0];
  for (size_t i = 0; i < table.sample.size(); ++i)
    places.push_back({table.arrival_replica[i], table.arrival_micro_batch[i], 0, 0});
  return places;
}

double imbalance_of(const std::vector<double>& seconds) {
  return *std::ranges::max_element(seconds) * static_cast<double>(seconds.size()) /
             std::accumulate(seconds.begin(), seconds.end(), 0.0) -
         1;
}

}  // namespace lf
