#include "load/dealer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

constexpr int64_t kTellAgain = 8;  // costs are told after 8, 64, 512, ... steps

std::vector<std::vector<std::vector<uint32_t>>> in_arrival_order(const PackedStep& step, int32_t ranks,
                                                                 int32_t per_rank) {
  std::vector<std::vector<std::vector<uint32_t>>> samples(ranks, std::vector<std::vector<uint32_t>>(per_rank));
  for (uint32_t i = 0; i < step.samples.size(); ++i)
    samples[step.micro_batch[i] / per_rank][step.micro_batch[i] % per_rank].push_back(i);
  return samples;
}

double ratio(double slowest, double mean) { return mean > 0 ? slowest / mean - 1 : 0; }

bool plans_follow_times(const LoaderInputs& inputs) { return inputs.config->balance.costs == "learned"; }

// Costs that are only stated have no error: what they promise to save is taken.
TriggerSettings trigger_of(const LoaderInputs& inputs) {
  return {.errors = plans_follow_times(inputs) ? 2.0 : 0.0, .exposed_seconds = 0};
}

}  // namespace

Dealer::Dealer(const LoaderInputs& inputs, const ModelCalls& model, int32_t ranks, int64_t lag)
    : inputs_(inputs), model_(model), ranks_(ranks), lag_(lag) {
  if (inputs.policy == nullptr) return;
  terms_ = std::make_unique<CostTerms>(model);
  balancer_ = std::make_unique<Balancer>(*inputs.policy, terms_->components(), ranks, trigger_of(inputs),
                                         plans_follow_times(inputs) ? PlannedBy::kLearned : PlannedBy::kStated);
  if (!inputs.balance_state.empty()) restore(inputs.balance_state);
}

StepAtoms Dealer::atoms_of(const PackedStep& step, int64_t number) const {
  const auto per_rank = static_cast<int32_t>(inputs_.config->data.micro_batches);
  StepAtoms atoms;
  atoms.step = number;
  atoms.seed = inputs_.config->job.seed;
  atoms.n_samples = step.samples.size();
  // Ranks wait once a step, at the reduction, however many micro-batches are accumulated before it.
  atoms.objective = inputs_.config->balance.objective == "makespan" ? LF_OBJECTIVE_MAKESPAN : LF_OBJECTIVE_SUM;
  atoms.micro_batches = per_rank;
  atoms.components.resize(model_.components().size());
  std::vector<int64_t> kept(step.samples.size(), 0);  // bytes from forward to backward, of all of a sample's atoms
  for (uint32_t c = 0; c < atoms.components.size(); ++c) {
    AtomTable& table = atoms.components[c];
    const uint32_t n_features = model_.components()[c].n_features;
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const AtomFeatures& features = step.samples[i].features;
      for (uint32_t atom = 0; atom < features.atoms[c]; ++atom) {
        const double* numbers = features.numbers[c].data() + size_t{atom} * n_features;
        table.sample.push_back(i);
        table.rows.push_back(static_cast<int64_t>(numbers[0]));
        table.arrival_replica.push_back(static_cast<int32_t>(step.micro_batch[i]) / per_rank);
        table.arrival_micro_batch.push_back(static_cast<int32_t>(step.micro_batch[i]) % per_rank);
        kept[i] += terms_->append(c, numbers, table.amounts);
      }
    }
  }
  for (AtomTable& table : atoms.components) table.bytes.assign(table.sample.size(), 0);
  // A plan must not need more memory than the samples would as they arrive: pictures, too, take room, and max_tokens
  // does not count them.
  std::vector<int64_t> arrival(static_cast<size_t>(ranks_) * per_rank, 0);
  for (size_t i = 0; i < kept.size(); ++i) arrival[step.micro_batch[i]] += kept[i];
  AtomTable& last = atoms.components.back();
  last.row_limit = inputs_.config->data.max_tokens;
  last.byte_limit = *std::ranges::max_element(arrival);
  last.bytes = std::move(kept);
  return atoms;
}

Deal Dealer::deal(const PackedStep& step, int64_t number) {
  if (balancer_ == nullptr)
    return {in_arrival_order(step, ranks_, static_cast<int32_t>(inputs_.config->data.micro_batches)), {}};
  const auto begun = std::chrono::steady_clock::now();
  Deal out;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = observed_.upper_bound(taken_); at != observed_.end() && at->first <= number - lag_; ++at) {
      taken_ = at->first;
      const Observation seen = balancer_->observe(at->first, at->second);
      if (seen.drifted)
        out.balance.note =
            fmt::format("step {}: the machine's speed has changed; costs are learned anew", at->first + 1);
    }
    while (!observed_.empty() && observed_.begin()->first <= number - 2 * lag_) observed_.erase(observed_.begin());
  }
  const CostModel& model = balancer_->model();
  if (model.steps() >= told_at_) {
    out.balance.note += (out.balance.note.empty() ? "" : "; ") + model.describe();
    while (model.steps() >= told_at_) told_at_ *= kTellAgain;
  }

  StepPlan plan = balancer_->plan(atoms_of(step, number));
  out.samples = std::move(plan.plan.samples);
  StepBalance& balance = out.balance;
  balance.planned = plan.balanced;
  balance.arrival_imbalance = plan.decision.imbalance();
  balance.predicted_imbalance = ratio(plan.plan.objective_seconds, plan.plan.mean_seconds);
  balance.bound_gap = ratio(plan.plan.objective_seconds, plan.plan.lower_bound_seconds);
  if (model.steps() > 0 && plans_follow_times(inputs_)) {
    balance.saving_seconds = plan.decision.saving();
    balance.saving_error = plan.decision.standard_error;
  }
  balance.plan_hash = plan.plan.hash;
  balance.after_this = std::make_shared<const BalanceMemory>(balancer_->memory());
  balance.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return out;
}

void Dealer::observe(int64_t step, std::vector<double> seconds) {
  if (balancer_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  observed_.emplace(step, std::move(seconds));
}

std::string Dealer::state(const BalanceMemory& after_last) const {
  nlohmann::json observed = nlohmann::json::array();
  const std::lock_guard lock(mutex_);
  for (const auto& [step, seconds] : observed_)
    if (after_last.pending.contains(step)) {
      nlohmann::json times = nlohmann::json::array();
      for (const double s : seconds) times.push_back(std::isfinite(s) ? s : 0.0);  // JSON has no NaN; 0 is no time
      observed.push_back({step, std::move(times)});
    }
  return nlohmann::json{{"ranks", ranks_}, {"balancer", after_last.state()}, {"observed", std::move(observed)}}.dump();
}

BalanceMemory Dealer::latest(BalanceMemory memory) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [step, seconds] : observed_) memory.observe(step, seconds);
  return memory;
}

void Dealer::restore(const std::string& state) {
  try {
    const nlohmann::json json = nlohmann::json::parse(state);
    const auto saved = json.at("balancer").get<std::string>();
    for (const nlohmann::json& one : json.at("observed"))
      observed_.emplace(one.at(0).get<int64_t>(), one.at(1).get<std::vector<double>>());
    const auto ranks_then = json.at("ranks").get<int32_t>();
    if (ranks_then == ranks_) {
      balancer_->restore(saved);
    } else {  // what those ranks had measured and not learned from is learned from as theirs
      Balancer then(*inputs_.policy, terms_->components(), ranks_then);
      then.restore(saved);
      for (const auto& [step, seconds] : std::exchange(observed_, {})) then.observe(step, seconds);
      balancer_->restore(then.state());
    }
  } catch (const nlohmann::json::exception& broken) {
    fail(Exit::kBadData, "balance: the saved state cannot be read: {}", broken.what());
  }
  while (balancer_->model().steps() >= told_at_) told_at_ *= kTellAgain;
}

}  // namespace lf
