#include "balance/balancer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

constexpr double kGapMemory = 0.98;   // a step without a plan: a policy that once did badly gets another chance
constexpr size_t kMostPending = 256;  // steps planned and not observed: older ones are forgotten

std::vector<CostTerm> all_terms(const std::vector<ComponentTerms>& components) {
  std::vector<CostTerm> terms;
  for (const ComponentTerms& component : components)
    terms.insert(terms.end(), component.terms.begin(), component.terms.end());
  return terms;
}

double imbalance(std::span<const double> seconds) {
  double most = 0, sum = 0, count = 0;
  for (const double s : seconds) {
    if (!(s > 0)) continue;  // no time, or none that counts
    most = std::max(most, s);
    sum += s;
    ++count;
  }
  return sum > 0 ? most * count / sum - 1 : 0;
}

bool keeps_promises(const BalanceInput& input, BalancePlan& plan) {
  try {
    plan = arrival_plan(input);
    return true;
  } catch (const Error& error) {
    if (error.exit() != Exit::kConfig) throw;
    return false;
  }
}

}  // namespace

Balancer::Balancer(const Policy& policy, std::vector<ComponentTerms> components, int32_t replicas,
                   TriggerSettings trigger, PlannedBy planned_by)
    : policy_(policy),
      components_(std::move(components)),
      trigger_(trigger),
      memory_{CostModel(all_terms(components_), replicas), 0.01, {}} {
  if (planned_by == PlannedBy::kStated) stated_ = memory_.model;
}

BalanceInput Balancer::input_of(const StepAtoms& atoms) const {
  if (atoms.components.size() != components_.size())
    fail(Exit::kBug, "balance: {} components for a cost model of {}", atoms.components.size(), components_.size());
  BalanceInput input;
  input.step = atoms.step;
  input.seed = atoms.seed;
  input.objective = atoms.objective;
  input.replicas = planned_by().replicas();
  input.micro_batches = atoms.micro_batches;
  input.n_samples = atoms.n_samples;
  input.fixed_seconds = planned_by().fixed_seconds();
  input.speed = planned_by().speeds();
  if (std::ranges::all_of(input.speed, [](double speed) { return speed == 1; })) input.speed.clear();
  const std::vector<double> coefficients = planned_by().coefficients();
  size_t first = 0;
  for (size_t c = 0; c < components_.size(); ++c) {
    const AtomTable& table = atoms.components[c];
    const size_t width = components_[c].terms.size();
    if (table.amounts.size() != table.sample.size() * width)
      fail(Exit::kBug, "balance: component {}: {} amounts for {} atoms of {} terms", components_[c].name,
           table.amounts.size(), table.sample.size(), width);
    BalancePart part{
        components_[c].name, table.tied,  table.row_limit,       table.byte_limit,         table.sample, {},
        table.rows,          table.bytes, table.arrival_replica, table.arrival_micro_batch};
    part.seconds.resize(table.sample.size());
    for (size_t i = 0; i < part.seconds.size(); ++i)
      part.seconds[i] = std::inner_product(table.amounts.begin() + static_cast<ptrdiff_t>(i * width),
                                           table.amounts.begin() + static_cast<ptrdiff_t>((i + 1) * width),
                                           coefficients.begin() + static_cast<ptrdiff_t>(first), 0.0);
    input.parts.push_back(std::move(part));
    first += width;
  }
  return input;
}

std::vector<double> Balancer::amounts_by_slot(const StepAtoms& atoms, std::span<const lf_assignment> places) const {
  const size_t n = memory_.model.n_terms();
  std::vector<double> sums(static_cast<size_t>(memory_.model.replicas()) * atoms.micro_batches * n, 0.0);
  size_t first = 0;
  for (size_t c = 0; c < components_.size(); ++c) {
    const AtomTable& table = atoms.components[c];
    const size_t width = components_[c].terms.size();
    for (size_t i = 0; i < table.sample.size(); ++i) {
      const size_t slot = static_cast<size_t>(places[i].replica) * atoms.micro_batches + places[i].micro_batch;
      for (size_t t = 0; t < width; ++t) sums[slot * n + first + t] += table.amounts[i * width + t];
    }
    places = places.subspan(table.sample.size());
    first += width;
  }
  return sums;
}

// Of the difference between the slowest replica as it arrived and the mean: what a plan would save is about that.
// `arrival`: amounts_by_slot of it.
double Balancer::error_of_saving(const BalanceInput& input, const std::vector<double>& arrival) const {
  const size_t n = planned_by().n_terms(), replicas = static_cast<size_t>(input.replicas);
  const std::vector<double> coefficients = planned_by().coefficients();
  std::vector<double> of_replica(replicas * n, 0.0), mean(n, 0.0);
  for (size_t slot = 0; slot < replicas * input.micro_batches; ++slot)
    for (size_t t = 0; t < n; ++t) of_replica[slot / input.micro_batches * n + t] += arrival[slot * n + t];
  size_t slowest = 0;
  double most = 0;
  for (size_t r = 0; r < replicas; ++r) {
    const auto first = of_replica.begin() + static_cast<ptrdiff_t>(r * n);
    const double seconds = std::inner_product(coefficients.begin(), coefficients.end(), first, 0.0) /
                           (input.speed.empty() ? 1 : input.speed[r]);
    if (seconds > most) slowest = r, most = seconds;
    for (size_t t = 0; t < n; ++t) mean[t] += of_replica[r * n + t] / static_cast<double>(replicas);
  }
  std::vector<double> difference(n);
  for (size_t t = 0; t < n; ++t) difference[t] = of_replica[slowest * n + t] - mean[t];
  return planned_by().standard_error(difference, 0);
}

BalancePlan Balancer::ask(const BalanceInput& input) {
  constexpr double kRate = 0.1;
  BalancePlan plan = policy_.plan(input);
  if (plan.lower_bound_seconds > 0)
    memory_.gap += kRate * (plan.objective_seconds / plan.lower_bound_seconds - 1 - memory_.gap);
  return plan;
}

StepPlan Balancer::plan(const StepAtoms& atoms) {
  const BalanceInput input = input_of(atoms);
  StepPlan result;
  result.decision = weigh(input, memory_.gap);
  std::vector<lf_assignment> arrival;
  for (const BalancePart& part : input.parts)
    for (size_t i = 0; i < part.sample.size(); ++i)
      arrival.push_back({part.arrival_replica[i], part.arrival_micro_batch[i], 0, 0});
  std::vector<double> amounts = amounts_by_slot(atoms, arrival);
  result.decision.standard_error = error_of_saving(input, amounts);
  decide(result.decision, trigger_);
  if (result.decision.balance) {
    result.plan = ask(input);
    result.balanced = result.plan.objective_seconds < result.decision.arrival_seconds;
  }
  if (!result.decision.balance) memory_.gap *= kGapMemory;
  if (!result.balanced && !keeps_promises(input, result.plan)) {
    if (!result.decision.balance) result.plan = ask(input);
    result.balanced = true;
  }
  if (result.balanced) amounts = amounts_by_slot(atoms, result.plan.assignments);
  memory_.pending[atoms.step] = {atoms.micro_batches, std::move(amounts)};
  while (memory_.pending.size() > kMostPending) memory_.pending.erase(memory_.pending.begin());
  return result;
}

Observation BalanceMemory::observe(int64_t step, std::span<const double> seconds) {
  const auto planned = pending.find(step);
  const auto replicas = static_cast<size_t>(model.replicas());
  if (planned == pending.end()) return {};
  const size_t slots = replicas * static_cast<size_t>(planned->second.micro_batches);
  if (seconds.size() != replicas && seconds.size() != slots) return {};
  const Pending done = std::move(planned->second);
  pending.erase(planned);

  Observation observation;
  observation.known = true;
  const std::vector<double> coefficients = model.coefficients(), speeds = model.speeds();
  const size_t n = model.n_terms();
  // By replica, or by micro-batch.
  const size_t pieces = seconds.size() / replicas, slots_of_piece = slots / seconds.size();
  std::vector<double> amounts(seconds.size() * n, 0.0), measured(replicas, 0.0), predicted(replicas, 0.0);
  for (size_t slot = 0; slot < slots; ++slot)
    for (size_t t = 0; t < n; ++t) amounts[slot / slots_of_piece * n + t] += done.amounts[slot * n + t];
  for (size_t i = 0; i < seconds.size(); ++i) {
    measured[i / pieces] += seconds[i];
    predicted[i / pieces] +=
        (std::inner_product(coefficients.begin(), coefficients.end(), amounts.begin() + i * n, 0.0) +
         model.fixed_seconds() * static_cast<double>(slots_of_piece)) /
        speeds[i / pieces];
  }
  observation.measured_imbalance = imbalance(measured);
  observation.predicted_imbalance = imbalance(predicted);
  const int64_t drifts = model.drifts();
  model.observe(seconds, amounts, static_cast<int32_t>(slots_of_piece));
  observation.drifted = model.drifts() > drifts;
  return observation;
}

std::string BalanceMemory::state() const {
  nlohmann::json planned = nlohmann::json::array();
  for (const auto& [step, one] : pending) planned.push_back({step, one.micro_batches, one.amounts});
  return nlohmann::json{{"model", model.state()}, {"gap", gap}, {"pending", planned}}.dump();
}

void BalanceMemory::restore(const std::string& state) {
  try {
    const nlohmann::json json = nlohmann::json::parse(state);
    model.restore(json.at("model").get<std::string>());
    json.at("gap").get_to(gap);
    pending.clear();
    for (const nlohmann::json& planned : json.at("pending")) {
      Pending one{planned.at(1).get<int32_t>(), planned.at(2).get<std::vector<double>>()};
      if (one.amounts.size() != model.n_terms() * static_cast<size_t>(model.replicas() * one.micro_batches)) continue;
      pending[planned.at(0).get<int64_t>()] = std::move(one);
    }
  } catch (const nlohmann::json::exception& broken) {
    fail(Exit::kBadData, "balance: the saved state cannot be read: {}", broken.what());
  }
}

void check_agreement(int64_t step, std::span<const uint64_t> hashes) {
  for (size_t rank = 1; rank < hashes.size(); ++rank)
    if (hashes[rank] != hashes[0])
      fail(Exit::kBug,
           "balance: step {}: rank {} made another plan ({:016x}) than rank 0 ({:016x}); all ranks must run the same "
           "build on the same job and data",
           step + 1, rank, hashes[rank], hashes[0]);
}

}  // namespace lf
