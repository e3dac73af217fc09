// How a run is set up: everything in the order of its dependences, and where it begins.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "core/amount.h"
#include "core/error.h"
#include "core/log.h"
#include "load/estimate.h"
#include "load/survey.h"
#include "optimizer/average_on_device.h"
#include "optimizer/learning_rate.h"
#include "reduction/on_device.h"
#include "train/meeting.h"
#include "train/resident_memory.h"
#include "train/trainer.h"

namespace lf {
namespace {

constexpr uint64_t kEstimateSamples = 4096;  // features looked at to count the steps of epochs

int recompute_level(const std::string& word) {
  return word == "whole" ? LF_RECOMPUTE_WHOLE : word == "inner" ? LF_RECOMPUTE_INNER : LF_RECOMPUTE_NONE;
}

// Units as backward completes them: the last of the last component first.
std::vector<GradientUnit> backward_units(const ParameterStore& store) {
  std::vector<GradientUnit> units;
  for (const UnitRange& range : store.units()) units.push_back({0, range.begin, range.end - range.begin});
  std::reverse(units.begin(), units.end());
  return units;
}

// Gradients come by the host where its group sums them, and where they are added up leaf by leaf.
StatePlaces state_places(const JobConfig& config, const GradientTransport& transport, const OptimizerMemory& memory) {
  const bool by_the_host = transport.word == "host" || config.reduction.mode == "fixed";
  return {.on_device = memory.on_device, .host_gradients = by_the_host};
}

CallWatchConfig watch_config(const TrainRequest& request, Rendezvous& rendezvous, const std::string& go_on) {
  CallWatchConfig config;
  config.rank = request.rank;
  config.go_on = go_on;
  config.limit = std::chrono::milliseconds(static_cast<int64_t>(request.job.config.device.call_timeout_seconds * 1000));
  config.grace = std::min(config.grace, config.limit);
  config.with_peers = config.limit + collective_timeout(request.job.config);
  config.told = [&rendezvous](const std::string& what) { rendezvous.announce_failure(what); };
  return config;
}

SessionOptions session_options(const TrainRequest& request, CallWatch& watch) {
  SessionOptions options;
  options.watch = &watch;
  options.local_rank = request.local_rank;
  options.probe_plugins = !request.plugins_probed;
  return options;
}

// Before anything is made of the job: ranks that hold different ones would wait for each other, or touch other files.
std::filesystem::path agreed_output(const TrainRequest& request, Exchange& control) {
  require_same_job(control, request.job.config, request.fresh);
  if (!request.fresh) return request.job.config.job.output;
  // Chosen once: another rank may already see the directory that rank 0 has made.
  const std::string chosen = request.rank == 0 ? fresh_output(request.job.config.job.output).string() : std::string();
  return control.all_gather(chosen)[0];
}

}  // namespace

Trainer::Trainer(const TrainRequest& request, Rendezvous& rendezvous)
    : request_(request),
      config_(request.job.config),
      rendezvous_(rendezvous),
      control_(rendezvous.group("control")),
      gradients_(rendezvous.group("gradients")),
      loading_(rendezvous.group("loading")),
      directory_(agreed_output(request, *control_), *control_, request.run_locked, request.terminal),
      watch_(watch_config(request, rendezvous, go_on())),
      session_(config_, session_options(request, watch_)),
      freezing_(freeze(session_.model->description(), config_.model.freeze, config_.lora.also_train)),
      transport_(choose_transport(config_, session_, *control_)),
      optimizer_memory_(choose_optimizer_memory(config_, session_, freezing_, *control_)),
      store_(session_.model->description(), freezing_, *session_.device, compute_dtype(config_),
             state_places(config_, transport_, optimizer_memory_)),
      source_(config_, session_.model->description()),
      runner_(*session_.model, store_, freezing_, session_.parallel, *session_.device,
              place_of_model(session_, *session_.device), recompute_level(config_.memory.recompute)),
      optimizer_(make_optimizer(config_, *session_.device, store_, freezing_, request.threads)),
      writer_(files_, alone_,
              CheckpointOptions{.directory = directory_.checkpoints(),
                                .keep = config_.checkpoint.keep,
                                .stop_when_full = config_.checkpoint.on_full == "stop"}) {
  if (is_streamed(config_.data))
    streams_.emplace(config_);
  else
    dataset_.emplace(config_.data);
  if (dataset_) require_same_data(*control_, *dataset_);
  const Description& description = session_.model->description();
  require_agreement(*control_, "model", fingerprint(description));
  begin();

  LoaderInputs inputs;
  inputs.config = &config_;
  inputs.dataset = dataset();
  inputs.streams = streams_ ? &*streams_ : nullptr;
  inputs.held_media = streams_ ? &session_.media.held() : nullptr;
  inputs.api = session_.model->api();
  inputs.model = session_.model->handle();
  inputs.policy = session_.policy.get();
  inputs.balance_state = balance_state_;
  inputs.exchange = loading_.get();
  inputs.first_step = finished_;
  inputs.position = position_;
  inputs.output = directory_.path();
  inputs.stop_requested = request_.stop_requested;
  if (leads()) warn_of_step_size();
  count_steps(inputs);
  if (leads()) {
    directory_.record(request_.job, session_, request_.world_size, request_.device_reason,
                      {{"reduction", {{"transport", transport_.word}, {"reason", transport_.reason}}},
                       {"optimizer", {{"memory", optimizer_memory_.word}, {"reason", optimizer_memory_.reason}}}});
    announce();
  }
  reducer_ = make_gradient_reducer();
  runner_.on_unit_done = [this](size_t unit, uint64_t) {
    reducer_->unit_done(static_cast<uint32_t>(store_.units().size() - 1 - unit));
  };
  const bool done = inputs.max_samples > 0 ? position_.samples_seen >= inputs.max_samples : finished_ >= total_steps_;
  if (!done) loader_ = std::make_unique<Loader>(inputs);
}

// Where every rank's gradients add up to what the optimizer reads.
std::unique_ptr<Reducer> Trainer::make_gradient_reducer() {
  ReducerConfig reduction;
  reduction.group = gradients_.get();
  reduction.gradients = {store_.gradients()};
  reduction.units = backward_units(store_);
  reduction.bucket_bytes = config_.reduction.bucket_bytes;
  reduction.mode = config_.reduction.mode == "fixed" ? ReductionMode::kFixed : ReductionMode::kFast;
  reduction.threads = request_.threads;
  const bool each_leaf = reduction.mode == ReductionMode::kFixed;
  if (session_.device->is_host()) return make_reducer(std::move(reduction));
  if (transport_.communicator || store_.gradients().empty()) {
    auto sums =
        std::make_unique<DeviceReducer>(*session_.device, store_, transport_.communicator.get(), std::move(reduction));
    copied_ = [&made = *sums] { return made.copied(); };
    return sums;
  }
  auto copies = std::make_unique<GradientCopies>(*session_.device, store_, backward_units(store_),
                                                 make_reducer(std::move(reduction)), request_.rank, each_leaf);
  copied_ = [&made = *copies] { return made.copied(); };
  return copies;
}

// Where the run begins: its newest complete checkpoint, or the first step. Every rank reads for itself.
void Trainer::begin() {
  {
    const auto work = rendezvous_.long_work("reading the weights");
    source_.fill(store_, config_.job.seed);
  }
  if (config_.ema.decay > 0 && leads()) start_average();
  if (request_.fresh) return;
  if (!config_.checkpoint.resume) {
    if (leads() && has_checkpoints(directory_.checkpoints()))
      fail(Exit::kConfig,
           "checkpoint.resume: expected a run directory without checkpoints where it is false, but {} has "
           "some; set it to true to go on from them, or start over with --fresh",
           directory_.checkpoints().string());
    return;
  }
  // Rank 0 checks every byte before the others read what it found.
  std::optional<ResumePoint> found;
  if (leads()) {
    const auto work = rendezvous_.long_work("checking every byte of the newest checkpoint");
    found = find_resume_point(directory_.checkpoints(), Verify::kHashes);
  }
  const std::string where =
      control_->all_gather(found && found->checkpoint ? found->checkpoint->path().string() : std::string())[0];
  if (found)
    for (const std::string& skipped : found->skipped) log::warning("{}", skipped);
  if (where.empty()) return;
  auto work = rendezvous_.long_work("reading the checkpoint");
  const Checkpoint checkpoint = leads() ? std::move(*found->checkpoint) : Checkpoint::open(where, Verify::kSizes);
  const TrainerState& state = checkpoint.state();
  require_same_settings(checkpoint, resumable_settings(config_, session_.model->description(), dataset()));
  restore(checkpoint, trained_state());
  work.reset();
  session_.model->load_state(state.model_state);
  optimizer_.set_skipped_in_row(static_cast<int>(state.skipped_in_a_row));
  finished_ = saved_ = state.step;
  steps_before_ = state.total_steps;
  if (leads() && config_.job.steps > 0 && state.step > config_.job.steps)
    log::warning("{} is of step {}, beyond job.steps = {}: nothing is left to train", checkpoint.path().string(),
                 state.step, config_.job.steps);
  const int64_t micro_batches = config_.data.micro_batches * request_.world_size;
  if (leads() && state.micro_batches > 0 && state.micro_batches != micro_batches)
    log::warning(
        "a step was {} on all ranks together and is now {}: the learning rate still follows steps, and a step takes "
        "another number of samples",
        counted(state.micro_batches, "micro-batch", "micro-batches"), micro_batches);
  updates_ = state.updates;
  position_ = state.position;
  balance_state_ = state.balance_state;
  if (leads()) log::info("resumed after step {} from {}", finished_, checkpoint.path().string());
}

void Trainer::start_average() {
  if (store_.state_on_device())
    average_.emplace(average_on_device(*session_.device, store_));
  else
    average_.emplace(store_.master(), request_.threads);
}

void Trainer::count_steps(LoaderInputs& inputs) {
  total_steps_ = config_.job.steps;
  if (total_steps_ == 0) {
    const double samples = config_.job.epochs * static_cast<double>(dataset_->size());
    inputs.max_samples = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(samples)));
    LoaderInputs from_start = inputs;  // the schedule must not move when a run is resumed
    from_start.first_step = 0;
    from_start.position = {};
    const StepEstimate estimate = estimate_steps(from_start, kEstimateSamples);
    total_steps_ = std::max<int64_t>(estimate.steps, 1);
    if (leads() && !estimate.exact)
      log::info("{}: about {}, by the first {}; the learning rate follows that number",
                counted(config_.job.epochs, "epoch"), counted(total_steps_, "step"),
                counted(estimate.samples_read, "sample"));
  }
  if (leads() && steps_before_ > 0) {
    const std::string moved =
        moved_schedule(config_.schedule, config_.optimizer.learning_rate, steps_before_, total_steps_, finished_);
    if (!moved.empty()) log::warning("{}", moved);
  }
  // With epochs the loader ends the run, a few steps before or after the estimate.
  inputs.last_step = inputs.max_samples == 0 ? total_steps_ : std::numeric_limits<int64_t>::max();
}

std::string Trainer::go_on() const {
  return request_.go_on.empty() ? "the same command" : go_on_command(request_.go_on, directory_.path());
}

void Trainer::announce() const {
  const Description& description = session_.model->description();
  int64_t trained = 0;  // without the room between them
  for (const ParameterSlot& slot : store_.slots()) trained += slot.trained ? slot.elements : 0;
  log::info("{}: {} parameters, {} trained, {} on {} ({}), {} each, {}", config_.job.name,
            count_text(description.parameter_count()), count_text(trained), counted(request_.world_size, "rank"),
            session_.device->id(), session_.device->info().name, counted(request_.threads, "thread"),
            config_.precision.compute);
  log::info("{}, {}, results in {}",
            dataset_ ? counted(dataset_->size(), "sample")
                     : counted(streams_->size(), "stream") + " of samples in their own order",
            counted(total_steps_, "step"), directory_.path().string());
  if (const std::string& begun = source_.new_parameters(); !begun.empty()) log::info("new: {}", begun);
  if (!request_.go_on.empty()) log::info("--fresh: a new run; if it is interrupted, go on with it by: {}", go_on());
  if (config_.reduction.mode == "fixed" && config_.launch.threads == 0)
    log::info("reduction.mode = \"fixed\": one thread a rank, whatever cores there are; launch.threads gives more");
  if (!request_.device_reason.empty()) log::info("device {}: {}", session_.device->id(), request_.device_reason);
  if (request_.world_size > 1 && !session_.device->is_host())
    log::info("gradients are summed on the {}: {}", transport_.word, transport_.reason);
  if (!session_.device->is_host())
    log::info("AdamW runs in the memory of the {}: {}", optimizer_memory_.word, optimizer_memory_.reason);
  if ((session_.device->info().abilities & LF_DEVICE_SIMULATED) != 0)
    log::warning("device {} is SIMULATED: what this run measures says nothing of a card", session_.device->id());
}

// Only where a step is large for this data, or for any host: a look at samples costs a few hundredths of a second.
void Trainer::warn_of_step_size() const {
  if (!dataset_) return;
  constexpr double kFewTokens = 16, kManyTokens = 1e6;  // of a sample; of a rank's step
  constexpr uint64_t kLookAt = 64;
  const double tokens = static_cast<double>(config_.data.max_tokens) * static_cast<double>(config_.data.micro_batches);
  if (tokens * request_.world_size < kFewTokens * static_cast<double>(dataset_->size()) && tokens < kManyTokens) return;
  const ModelCalls calls(session_.model->api(), session_.model->handle());
  const Survey seen = survey(*dataset_, calls, config_.data, kLookAt);
  const StepSize step = step_size(seen, *dataset_, calls, config_.data, request_.world_size);
  const std::string warning = step_size_warning(step, config_.data, request_.local_world_size, host_memory_bytes());
  if (!warning.empty()) log::warning("{}", warning);
}

}  // namespace lf
