#include "fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/runtime/balance/simulated_machine.h"

namespace lf {
namespace {

constexpr int32_t kReplicas = 32, kMicroBatches = 4;
constexpr int64_t kDrawn = 60;  // steps repeat after so many: drawing them is slow

struct Steps {
  std::vector<std::vector<double>> pieces;    // [step][replicas, micro-batches, terms]
  std::vector<std::vector<double>> replicas;  // [step][replicas, terms]
};

Steps draw(const std::string& distribution, int64_t pack, uint64_t seed) {
  Steps steps;
  for (int64_t step = 0; step < kDrawn; ++step) {
    const StepAtoms atoms = draw_step(distribution, step, kReplicas, kMicroBatches, pack, seed);
    steps.pieces.push_back(micro_batch_amounts_of(atoms, arrival_of(atoms), kReplicas));
    steps.replicas.push_back(amounts_of(atoms, arrival_of(atoms), kReplicas));
  }
  return steps;
}

CostModel new_model() { return CostModel(text_terms()[0].terms, kReplicas); }

// Micro-batch by micro-batch, as training on a host tells times; independent noise of 10% in each is 5% of a step.
void train(CostModel& model, Machine machine, const Steps& steps, int64_t first, int64_t count, Random& random) {
  machine.noise *= std::sqrt(static_cast<double>(kMicroBatches));
  for (int64_t s = first; s < first + count; ++s) {
    const std::vector<double>& pieces = steps.pieces[static_cast<size_t>(s % kDrawn)];
    model.observe(seconds_of(machine, pieces, 1, &random), pieces, 1);
  }
}

// Mean over the steps 20 to 39.
double imbalance(const Machine& machine, const Steps& steps) {
  double sum = 0;
  for (size_t s = 20; s < 40; ++s)
    sum += imbalance_of(seconds_of(machine, steps.replicas[s], kMicroBatches, nullptr)) / 20;
  return sum;
}

// What no unbiased estimator is below (Cramer, Rao): the standard deviation of the imbalance predicted from the costs
// that the times of the first 20 steps tell, relative to it. Parameters: linear, attention, fixed, each around its own
// value.
double least_error(const Machine& machine, const Steps& steps) {
  double information[3][3] = {};
  const double noise = machine.noise * std::sqrt(static_cast<double>(kMicroBatches));
  for (size_t s = 0; s < 20; ++s)
    for (size_t i = 0; i < steps.pieces[s].size() / 2; ++i) {
      const double x[3] = {machine.linear * steps.pieces[s][2 * i], machine.attention * steps.pieces[s][2 * i + 1],
                           machine.fixed};
      const double deviation = noise * (x[0] + x[1] + x[2]);
      for (size_t a = 0; a < 3; ++a)
        for (size_t b = 0; b < 3; ++b) information[a][b] += x[a] * x[b] / (deviation * deviation);
    }
  double gradient[3];
  for (size_t p = 0; p < 3; ++p) {
    constexpr double kStep = 1e-4;
    Machine more = machine, less = machine;
    double Machine::*const of[3] = {&Machine::linear, &Machine::attention, &Machine::fixed};
    more.*of[p] *= 1 + kStep;
    less.*of[p] *= 1 - kStep;
    gradient[p] = (imbalance(more, steps) - imbalance(less, steps)) / (2 * kStep);
  }
  // gradient^T information^-1 gradient, by elimination.
  double solved[3] = {gradient[0], gradient[1], gradient[2]};
  for (size_t p = 0; p < 3; ++p)
    for (size_t row = p + 1; row < 3; ++row) {
      const double factor = information[row][p] / information[p][p];
      for (size_t c = p; c < 3; ++c) information[row][c] -= factor * information[p][c];
      solved[row] -= factor * solved[p];
    }
  for (size_t p = 3; p-- > 0;) {
    for (size_t c = p + 1; c < 3; ++c) solved[p] -= information[p][c] * solved[c];
    solved[p] /= information[p][p];
  }
  const double variance = gradient[0] * solved[0] + gradient[1] * solved[1] + gradient[2] * solved[2];
  return std::sqrt(variance) / imbalance(machine, steps);
}

}  // namespace

Fit measure_fit(const std::string& distribution, int64_t pack, int seeds) {
  Fit fit;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Steps amounts = draw(distribution, pack, seed);
    Random random(seed);
    Machine machine;
    CostModel model = new_model();
    train(model, machine, amounts, 0, 20, random);

    const Machine learned{model.coefficients()[0], model.coefficients()[1], model.fixed_seconds(), 0, model.speeds()};
    const double predicted = imbalance(learned, amounts), truth = imbalance(machine, amounts);
    fit.true_imbalance += truth / seeds;
    fit.predicted_imbalance += predicted / seeds;
    fit.worst_error = std::max(fit.worst_error, std::abs(predicted / truth - 1));
    fit.least_error += least_error(machine, amounts) / seeds;

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
