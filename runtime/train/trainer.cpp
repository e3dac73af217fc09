// How a run goes: step after step, saved when it is time, and what it leaves at its end.
#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <nlohmann/json.hpp>

#include "core/amount.h"
#include "core/error.h"
#include "core/log.h"
#include "optimizer/learning_rate.h"
#include "train/first_loss.h"
#include "train/meeting.h"

namespace lf {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

TrainedStep Trainer::train(StepWork work) {
  const double begun = now();
  const Device::Range whole(*session_.device, "step");
  runner_.begin_step();
  reducer_->begin_step(
      std::vector<int64_t>(static_cast<size_t>(request_.world_size), static_cast<int64_t>(work.micro_batches.size())));
  const double scale = work.global_loss_weight > 0 ? 1 / work.global_loss_weight : 0;
  TrainedStep step;
  std::vector<RunResult> results;
  std::vector<double> micro_batch_seconds;
  for (size_t k = 0; k < work.micro_batches.size(); ++k) {
    const MicroBatch& batch = work.micro_batches[k];
    const Stopwatch in_model;
    results.push_back(batch.n_samples == 0 ? RunResult{}
                                           : runner_.run(batch, k,
                                                         RunOptions{.loss_scale = scale,
                                                                    .totals = work.global_features,
                                                                    .seed = config_.job.seed,
                                                                    .step = static_cast<uint64_t>(work.step)}));
    micro_batch_seconds.push_back(in_model.seconds());
    step.spent.model_seconds += micro_batch_seconds.back();
    step.spent.model_cpu_seconds += in_model.thread_cpu_seconds();
    reducer_->leaf_done();
  }
  const Stopwatch finishing;
  session_.device->wait_for_compute();  // the times that costs are learned from are those of work that is done
  step.spent.model_seconds += finishing.seconds();
  const Stopwatch waiting;
  step.sums = exchange_sums(*control_, results, session_.model->description().aux_names.size(),
                            request_.stop_requested(), now() - begun, micro_batch_seconds);
  step.spent.peer_wait_seconds = waiting.seconds();
  {
    const Device::Range reduction(*session_.device, "reduction");
    step.reduced = reducer_->finish();
  }
  const Device::Range optimizer(*session_.device, "optimizer");
  const Stopwatch in_optimizer;
  std::reverse(step.reduced.has_gradient.begin(), step.reduced.has_gradient.end());  // now as the store counts units
  if (work.global_loss_weight > 0) {
    const double rate = learning_rate(config_.schedule, config_.optimizer.learning_rate, total_steps_, finished_);
    step.stats = optimizer_.step(rate, step.sums.loss_sum / work.global_loss_weight, step.reduced.has_gradient);
    if (!step.stats.skipped) {
      store_.publish();
      if (average_) average_->update(average_decay(config_.ema, updates_));
    }
  } else {
    if (leads()) log::warning("step {}: no supervised token on any rank, nothing was trained", finished_ + 1);
    step.stats.skipped = true;
  }
  step.spent.optimizer_seconds = in_optimizer.seconds();
  step.spent.optimizer_cpu_seconds = in_optimizer.thread_cpu_seconds();
  step.number = ++finished_;
  updates_ += step.stats.skipped ? 0 : 1;
  position_ = work.after;
  step.work = std::move(work);
  return step;
}

int Trainer::run() {
  if (leads()) reporter_.emplace(request_, session_, store_, freezing_, directory_.path(), finished_);
  try {
    return run_steps_or_name_the_cause();
  } catch (const std::exception& error) {
    if (leads()) reporter_->finish(fmt::format("failed: {}", error.what()));
    throw;
  }
}

// A sum over the cards that went wrong shows in whatever call comes next.
int Trainer::run_steps_or_name_the_cause() {
  try {
    return run_steps();
  } catch (const Error&) {
    if (transport_.communicator) transport_.communicator->require_sound();
    throw;
  }
}

int Trainer::run_steps() {
  last_save_ = now();
  if (leads()) reporter_->begin();
  bool stopped = false, more = loader_ != nullptr;
  for (Stopwatch whole; more && !stopped; whole = Stopwatch()) {
    StepWork work = loader_->next();
    if (work.stopped) {  // on every rank alike: no further step was gathered
      stopped = true;
      if (finished_ > 0 && saved_ != finished_) save();
      break;
    }
    if (work.none_left) {  // an earlier process trained all that the streams hold
      more = false;
      break;
    }
    const TrainedStep step = train(std::move(work));
    loader_->observe(step.work.step, observed_seconds(step, *session_.device));
    if (leads()) reporter_->report(step, total_steps_, whole, copied_ ? copied_() : CopiedBytes{});
    if (leads() && step.number == 1 && !config_.model.path.empty()) {
      const std::string doubt =
          doubt_of_loaded_weights(session_.model->description(), step.sums, step.work.global_loss_weight);
      if (!doubt.empty()) log::warning("{}", doubt);
    }
    stopped = step.sums.stop;
    more = !step.work.last;
    if (more && (stopped || save_due())) save();
  }
  close_loader(!more);
  if (leads()) tell_lost_samples();
  if (!more && leads() && streams_ && finished_ < total_steps_)
    log::info("the streams ended after {}: {} of {}", counted(position_.samples_seen, "sample"), finished_,
              counted(total_steps_, "step"));
  if (stopped && more) {
    if (leads()) reporter_->finish(finished_ > 0 ? "saved" : "stopped");
    finish_saving();
    if (leads() && finished_ > 0)
      log::info("asked to stop: saved after step {}; {} goes on from there", finished_, go_on());
    else if (leads())
      log::info("asked to stop before the first step: nothing to save; {} starts again", go_on());
    return static_cast<int>(Exit::kSavedRunAgain);
  }
  finish();
  return static_cast<int>(Exit::kDone);
}

// Or a run that cut every tenth sample would look like one that cut none.
void Trainer::tell_lost_samples() const {
  std::string lost;
  const auto tell = [&](uint64_t count, const std::string& what) {
    if (count > 0) lost += fmt::format("{}{} {}", lost.empty() ? "" : ", ", count, what);
  };
  tell(position_.cut_samples, fmt::format("cut to data.max_tokens = {}", config_.data.max_tokens));
  tell(position_.long_samples, fmt::format("longer than data.max_tokens = {}", config_.data.max_tokens));
  tell(position_.bad_samples, "bad");
  if (!lost.empty())
    log::info("of {} since the first step: {}{}", counted(position_.samples_seen, "sample"), lost,
              position_.long_samples + position_.bad_samples > 0 ? "; skipped.jsonl lists those passed over" : "");
}

// What is known of costs at the end stays for checkpoints, for people, and for `lfrun balance --scaling`.
void Trainer::close_loader(bool done) {
  if (!loader_) return;
  balance_state_ = loader_->balance_state();
  const std::optional<CostModel> costs = loader_->costs();
  loader_.reset();
  if (!done) return;
  const MeasuredReduction reduction =
      measure_reduction(*gradients_, store_.trained_elements(), *session_.device, transport_.communicator.get());
  if (!leads() || !costs || costs->steps() == 0) return;
  log::info("{}", costs->describe());
  ProfiledRun run = reporter_->means();
  run.gradient_bytes = static_cast<double>(store_.trained_elements()) * sizeof(float);
  run.world_size = request_.world_size;
  run.micro_batches = static_cast<int>(config_.data.micro_batches);
  write_profile(directory_.path() / "profile.json", *costs, reduction, run);
}

// By steps on every rank alike; by minutes on rank 0, which alone writes.
bool Trainer::save_due() const {
  const CheckpointSection& wanted = config_.checkpoint;
  if (wanted.every_steps > 0 && finished_ % wanted.every_steps == 0) return true;
  return wanted.every_minutes > 0 && now() - last_save_ >= wanted.every_minutes * 60;
}

void Trainer::save() {
  last_save_ = now();
  saved_ = finished_;
  if (!leads()) return;  // replicated: rank 0 has all of it
  TrainerState state;
  state.step = finished_;
  state.updates = updates_;
  state.skipped_in_a_row = optimizer_.skipped_in_row();
  state.seed = config_.job.seed;
  state.micro_batches = config_.data.micro_batches * request_.world_size;
  state.total_steps = total_steps_;
  state.position = position_;
  state.settings = resumable_settings(config_, session_.model->description(), dataset());
  state.versions = {{"lfrun", LF_VERSION}, {"torch", LF_TORCH_BUILD}};
  state.model_state = session_.model->save_state();
  state.balance_state = loader_ ? loader_->balance_state() : balance_state_;
  const auto work = rendezvous_.long_work(fmt::format("saving step {}", finished_));  // or ending the save before
  writer_.save(state, state_tensors(trained_state()));
}

// Why the last checkpoint could not be written; none where it stands, and on ranks that write none.
std::optional<Error> Trainer::failure_of_saving() {
  if (!leads()) return std::nullopt;
  const auto work = rendezvous_.long_work("writing the last checkpoint");
  try {
    const std::optional<SaveReport> report = writer_.wait();
    if (!report || report->outcome == SaveReport::Outcome::kSaved) return std::nullopt;
    return Error(Exit::kIo, report->reason);
  } catch (const Error& error) {  // [checkpoint] on_full
    return error;
  }
}

// What the user does once the disk can be written again.
std::string Trainer::way_on() const {
  try {
    if (const auto checkpoint = find_resume_point(directory_.checkpoints(), Verify::kSizes).checkpoint)
      return fmt::format("then {} goes on after step {}, from {}", go_on(), checkpoint->state().step,
                         checkpoint->path().string());
    return fmt::format("then {} starts again at the first step, as no checkpoint is there", go_on());
  } catch (const Error& error) {
    return fmt::format("and before {} can go on: {}", go_on(), error.what());
  }
}

void Trainer::finish_saving() {
  if (const std::optional<Error> unsaved = failure_of_saving())
    fail(unsaved->exit(), "the checkpoint of step {} could not be written: {}; {}", finished_, unsaved->what(),
         way_on());
}

// Which operators a device left to the CPU, and a model's passes that the host computed for it ([device] op_fallback),
// summed over the ranks.
void Trainer::record_operators_on_cpu() {
  const auto all_ranks = [&](const std::string& json) {
    std::map<std::string, uint64_t> sums;
    for (const std::string& text : control_->all_gather(json)) {
      const nlohmann::json counts = nlohmann::json::parse(text, nullptr, false);
      if (counts.is_object())
        for (const auto& [name, count] : counts.items()) sums[name] += count.get<uint64_t>();
    }
    return sums;
  };
  const nlohmann::json health = nlohmann::json::parse(session_.device->health(), nullptr, false);
  std::map<std::string, uint64_t> counts =
      all_ranks(health.is_object() && health.contains("operators_on_cpu") ? health["operators_on_cpu"].dump() : "{}");
  std::string list;  // the plugin tells of operators itself
  for (const auto& [pass, count] : all_ranks(nlohmann::json(runner_.passes_on_host()).dump())) {
    counts[session_.model->plugin_id() + ": " + pass] = count;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", pass, count);
  }
  if (leads() && !list.empty())
    log::warning("model {} computed in the host's memory for device {}: {}", session_.model->plugin_id(),
                 session_.device->id(), list);
  if (leads() && !counts.empty()) directory_.record_operators_on_cpu(counts);
}

void Trainer::finish() {
  if (finished_ > 0 && updates_ == 0)
    fail(Exit::kBadData,
         "none of {} trained anything: no supervised token was left, or no loss was finite; see {} and the "
         "weights that the run began with",
         counted(finished_, "step"), (directory_.path() / "metrics.jsonl").string());
  if (saved_ != finished_) save();
  const std::optional<Error> unsaved = failure_of_saving();
  record_operators_on_cpu();
  if (leads()) {
    const auto work = rendezvous_.long_work("writing the model directory");
    if (unsaved) export_models_instead(*unsaved);
    log::info("trained {}; checkpoint in {}", counted(finished_, "step"), directory_.checkpoints().string());
    try {
      export_models(trained_run());
    } catch (const Error& error) {
      fail(error.exit(), "{}; the checkpoint of step {} is whole: {} then writes the model alone", error.what(),
           finished_, go_on());
    }
    reporter_->finish("done");
    if (!request_.go_on.empty()) log::info("--fresh starts over; to go on with this run: {}", go_on());
  }
  control_->barrier();
}

// Where there is no room for the last checkpoint there may be some for the weights alone, which are what was wanted.
void Trainer::export_models_instead(const Error& unsaved) {
  std::string model = "and no model directory was asked for";
  try {
    export_models(trained_run());
    if (config_.checkpoint.export_model)
      model = fmt::format("the model of that step is whole in {}", directory_.model().string());
  } catch (const Error& error) {
    model = fmt::format("the model directory neither: {}", error.what());
  }
  fail(unsaved.exit(), "the checkpoint of step {}, the last, could not be written: {}; {}; {}", finished_,
       unsaved.what(), model, way_on());
}

TrainedRun Trainer::trained_run() { return {config_, session_, source_, directory_, trained_state()}; }

TrainedState Trainer::trained_state() {
  return {.store = &store_, .optimizer = &optimizer_, .average = average_ ? &*average_ : nullptr};
}

int run_training(const TrainRequest& request) {
  const std::unique_ptr<Rendezvous> rendezvous = meet(request);
  try {
    return Trainer(request, *rendezvous).run();
  } catch (const std::exception& error) {
    rendezvous->announce_failure(error.what());
    throw;
  }
}

}  // namespace lf
