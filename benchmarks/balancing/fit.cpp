#include "fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/runtime/balance/simulated_machine.h"

namespace lf {
namespace {

constexpr int32_t kReplicas = 32, kMicroBatches = 4;
constexpr int64_t kDrawn = 60;  // steps repeat after so many: drawing them is slow

using Amounts = std::vector<std::vector<double>>;  // [step][replicas * terms]

Amounts draw(const std::string& distribution, int64_t pack, uint64_t seed) {
  Amounts amounts;
  for (int64_t step = 0; step < kDrawn; ++step) {
    const StepAtoms atoms = draw_step(distribution, step, kReplicas, kMicroBatches, pack, seed);
    amounts.push_back(amounts_of(atoms, arrival_of(atoms), kReplicas));
  }
  return amounts;
}

CostModel new_model() { return CostModel(text_terms()[0].terms, kReplicas); }

void train(CostModel& model, const Machine& machine, const Amounts& amounts, int64_t first, int64_t steps,
           Random& random) {
  for (int64_t s = first; s < first + steps; ++s) {
    const std::vector<double>& of_step = amounts[static_cast<size_t>(s % kDrawn)];
    model.observe(seconds_of(machine, of_step, kMicroBatches, &random), of_step, kMicroBatches);
  }
}

}  // namespace

Fit measure_fit(const std::string& distribution, int64_t pack, int seeds) {
  Fit fit;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Amounts amounts = draw(distribution, pack, seed);
    Random random(seed);
    Machine machine;
    CostModel model = new_model();
    train(model, machine, amounts, 0, 20, random);

    const Machine learned{model.coefficients()[0], model.coefficients()[1], model.fixed_seconds(), 0, model.speeds()};
    double predicted = 0, truth = 0;
    for (size_t s = 20; s < 40; ++s) {
      predicted += imbalance_of(seconds_of(learned, amounts[s], kMicroBatches, nullptr)) / 20;
      truth += imbalance_of(seconds_of(machine, amounts[s], kMicroBatches, nullptr)) / 20;
    }
    fit.true_imbalance += truth / seeds;
    fit.predicted_imbalance += predicted / seeds;
    fit.worst_error = std::max(fit.worst_error, std::abs(predicted / truth - 1));

    CostModel resumed = new_model();
    resumed.restore(model.state());
    Random again = random;
    train(model, machine, amounts, 20, 20, random);
    train(resumed, machine, amounts, 20, 20, again);
    fit.resume_exact &= resumed.state() == model.state();

    train(model, machine, amounts, 40, 1000, random);
    fit.false_alarms += static_cast<double>(model.drifts()) / seeds;
    machine.linear *= 1.2, machine.attention *= 1.2, machine.fixed *= 1.2;
    const int64_t before = model.drifts();
    double steps = 0;
    for (; model.drifts() == before && steps < 60; ++steps)
      train(model, machine, amounts, 1040 + int64_t(steps), 1, random);
    fit.drift_steps += steps / seeds;
    fit.worst_drift_steps = std::max(fit.worst_drift_steps, steps);
  }
  return fit;
}

}  // namespace lf
