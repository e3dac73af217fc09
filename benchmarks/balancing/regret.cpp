#include "regret.h"

#include <algorithm>

#include "balance/balancer.h"
#include "tests/runtime/balance/simulated_machine.h"

namespace lf {
namespace {

constexpr int32_t kReplicas = 64, kMicroBatches = 4;
constexpr int64_t kSteps = 60;

double slowest(const std::vector<double>& seconds) { return *std::ranges::max_element(seconds); }

BalanceInput true_input(const StepAtoms& atoms, const Machine& machine) {
  BalanceInput input;
  input.step = atoms.step;
  input.objective = atoms.objective;
  input.replicas = kReplicas;
  input.micro_batches = kMicroBatches;
  input.n_samples = atoms.n_samples;
  input.fixed_seconds = machine.fixed;
  const AtomTable& table = atoms.components[0];
  BalancePart part{"language",
                   true,
                   table.row_limit,
                   0,
                   table.sample,
                   {},
                   table.rows,
                   table.bytes,
                   table.arrival_replica,
                   table.arrival_micro_batch};
  for (size_t i = 0; i < table.sample.size(); ++i)
    part.seconds.push_back(machine.linear * table.amounts[2 * i] + machine.attention * table.amounts[2 * i + 1]);
  input.parts.push_back(std::move(part));
  return input;
}

}  // namespace

Regret measure_regret(const Policy& policy, const std::string& distribution, int64_t pack, double exposed, int seeds) {
  Regret regret;
  const Machine machine;
  double ours = 0, ratio = 0, oracle = 0, steps = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    Random random(seed);
    CostModel model(text_terms()[0].terms, kReplicas);
    double gap = 0.01;
    for (int64_t step = 0; step < kSteps; ++step) {
      const StepAtoms atoms = draw_step(distribution, step, kReplicas, kMicroBatches, pack, seed);
      const std::vector<lf_assignment> arrival = arrival_of(atoms);
      const std::vector<double> arrival_amounts = amounts_of(atoms, arrival, kReplicas);
      const std::vector<double> unbalanced = seconds_of(machine, arrival_amounts, kMicroBatches, nullptr);

      // What the run would know: learned costs, and the plan made with them.
      Machine learned{model.coefficients()[0], model.coefficients()[1], model.fixed_seconds(), 0, {}};
      const BalanceInput believed = true_input(atoms, learned);
      const std::vector<lf_assignment> plan = policy.ask(believed);
      const std::vector<double> plan_amounts = amounts_of(atoms, plan, kReplicas);
      const std::vector<double> balanced = seconds_of(machine, plan_amounts, kMicroBatches, nullptr);
      double mean = 0;
      for (const double s : unbalanced) mean += s / kReplicas;
      const double price = exposed * mean;

      Decision decision = weigh(believed, gap);
      const size_t worst = std::ranges::max_element(unbalanced) - unbalanced.begin();
      std::vector<double> difference(2, 0.0);
      for (size_t r = 0; r < kReplicas; ++r)
        for (size_t t = 0; t < 2; ++t) difference[t] += ((r == worst) - 1.0 / kReplicas) * arrival_amounts[2 * r + t];
      decision.standard_error = model.standard_error(difference, 0);
      decide(decision, {.errors = 2, .exposed_seconds = model.steps() > 0 ? price : 0});

      const double stay = slowest(unbalanced), go = slowest(balanced) + price;
      const bool ratio_goes = imbalance_of(unbalanced) >= 0.2;
      oracle += std::min(stay, go);
      ours += decision.balance ? go : stay;
      ratio += ratio_goes ? go : stay;
      regret.oracle_share += go < stay;
      regret.our_share += decision.balance;
      regret.ratio_share += ratio_goes;
      ++steps;

      const std::vector<double>& done = decision.balance ? plan_amounts : arrival_amounts;
      model.observe(seconds_of(machine, done, kMicroBatches, &random), done, kMicroBatches);
    }
  }
  regret.ours = ours / oracle - 1;
  regret.ratio = ratio / oracle - 1;
  regret.oracle_share /= steps;
  regret.our_share /= steps;
  regret.ratio_share /= steps;
  return regret;
}

}  // namespace lf
