#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/amount.h"
#include "core/error.h"
#include "core/log.h"
#include "load/estimate.h"
#include "load/survey.h"
#include "optimizer/average_on_device.h"
#include "optimizer/learning_rate.h"
#include "reduction/on_device.h"
#include "train/meeting.h"
#include "train/profile.h"
#include "train/resident_memory.h"
#include "weights/opening.h"

namespace lf {
namespace {

constexpr uint64_t kEstimateSamples = 4096;  // features looked at to count the steps of epochs

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

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

std::string describe_layout(const Description& description) {
  std::string text;
  for (const ParameterInfo& parameter : description.parameters)
    text += fmt::format("{} {}\n", parameter.name, fmt::join(parameter.shape, "x"));
  return text;
}

CallWatchConfig watch_config(const TrainRequest& request, Rendezvous& rendezvous) {
  CallWatchConfig config;
  config.rank = request.rank;
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
      control_(rendezvous.group("control")),
      gradients_(rendezvous.group("gradients")),
      loading_(rendezvous.group("loading")),
      directory_(agreed_output(request, *control_), *control_, request.run_locked, request.terminal),
      watch_(watch_config(request, rendezvous)),
      session_(config_, session_options(request, watch_)),
      freezing_(freeze(session_.model->description(), config_.model.freeze, config_.lora.also_train)),
      transport_(choose_transport(config_, session_, *control_)),
      optimizer_memory_(choose_optimizer_memory(config_, session_, freezing_, *control_)),
      store_(session_.model->description(), freezing_, *session_.device, compute_dtype(config_),
             state_places(config_, transport_, optimizer_memory_)),
      source_(config_, session_.model->description()),
      runner_(*session_.model, store_, freezing_, session_.parallel, *session_.device,
              recompute_level(config_.memory.recompute)),
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
  require_agreement(*control_, "model", describe_layout(description));
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
  source_.fill(store_, config_.job.seed);
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
  if (leads()) found = find_resume_point(directory_.checkpoints(), Verify::kHashes);
  const std::string where =
      control_->all_gather(found && found->checkpoint ? found->checkpoint->path().string() : std::string())[0];
  if (found)
    for (const std::string& skipped : found->skipped) log::warning("{}", skipped);
  if (where.empty()) return;
  const Checkpoint checkpoint = leads() ? std::move(*found->checkpoint) : Checkpoint::open(where, Verify::kSizes);
  const TrainerState& state = checkpoint.state();
  require_same_settings(checkpoint, resumable_settings(config_, session_.model->description(), dataset()));
  restore(checkpoint, trained_state());
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

Trainer::Step Trainer::train(StepWork work) {
  const double begun = now();
  runner_.begin_step();
  reducer_->begin_step(
      std::vector<int64_t>(static_cast<size_t>(request_.world_size), static_cast<int64_t>(work.micro_batches.size())));
  const double scale = work.global_loss_weight > 0 ? 1 / work.global_loss_weight : 0;
  Step step;
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
  step.reduced = reducer_->finish();
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
  ++finished_;
  updates_ += step.stats.skipped ? 0 : 1;
  position_ = work.after;
  step.work = std::move(work);
  return step;
}

int Trainer::run() {
  if (leads()) open_metrics();
  try {
    return run_steps_or_name_the_cause();
  } catch (const std::exception& error) {
    if (leads()) metrics_->finish(fmt::format("failed: {}", error.what()));
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
  started_ = last_save_ = now();
  bool stopped = false, more = loader_ != nullptr;
  for (Stopwatch whole; more && !stopped; whole = Stopwatch()) {
    StepWork work = loader_->next();
    if (work.stopped) {  // on every rank alike: no further step was gathered
      stopped = true;
      if (finished_ > 0 && saved_ != finished_) save();
      break;
    }
    const Step step = train(std::move(work));
    // On a card, work of a micro-batch is done some time after it was asked for: only the step's end is known.
    loader_->observe(step.work.step,
                     session_.device->is_host() ? step.sums.micro_batch_seconds : step.sums.compute_seconds);
    if (leads()) report(step, whole);
    stopped = step.sums.stop;
    more = !step.work.last;
    if (more && (stopped || save_due())) save();
  }
  close_loader(!more);
  if (!more && leads() && streams_ && finished_ < total_steps_)
    log::info("the streams ended after {}: {} of {}", counted(position_.samples_seen, "sample"), finished_,
              counted(total_steps_, "step"));
  if (stopped && more) {
    if (leads()) metrics_->finish(finished_ > 0 ? "saved" : "stopped");
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

void Trainer::open_metrics() {
  MetricsConfig config;
  config.folder = directory_.path();
  config.title = config_.job.name;
  config.finished_steps = finished_;
  config.start_unix_seconds = unix_now();
  config.tensorboard = config_.metrics.tensorboard;
  config.progress.terminal = request_.terminal;
  config.progress.seconds = config_.metrics.seconds;
  config.progress.colour = std::getenv("NO_COLOR") == nullptr;
  metrics_.emplace(std::move(config));
}

// Floating-point operations of this rank's part of a step: forward, and backward where something is trained. Adapters'
// own are not counted: they are small beside those of their maps.
double Trainer::step_flops(const StepWork& work) const {
  const Description& description = session_.model->description();
  std::vector<bool> makes_gradients(store_.units().size());  // of weights
  for (const ParameterSlot& slot : store_.slots())
    if (slot.trained && (description.parameters[slot.parameter].flags & kParameterAdapter) == 0)
      makes_gradients[slot.unit] = true;
  double flops = 0;
  for (const MicroBatch& batch : work.micro_batches)
    for (uint32_t c = 0; c < description.components.size(); ++c) {
      if (batch.atoms.empty() || batch.atoms[c] == 0) continue;
      const bool frozen = freezing_.all_frozen(description.components[c]);
      for (uint32_t unit = 0; unit < description.components[c].n_units; ++unit) {
        const lf_cost cost = session_.model->cost(c, unit, batch.features[c]);
        flops += cost.forward_flops + (frozen ? 0 : cost.input_flops);
        if (makes_gradients[store_.unit_index(c, unit)]) flops += cost.weight_flops;
      }
    }
  return flops;
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
  write_profile(directory_.path() / "profile.json", *costs, reduction,
                {.gradient_bytes = static_cast<double>(store_.trained_elements()) * sizeof(float),
                 .exposed_seconds = exposed_.mean(),
                 .compute_seconds = compute_.mean(),
                 .other_seconds = other_.mean(),
                 .world_size = request_.world_size,
                 .micro_batches = static_cast<int>(config_.data.micro_batches)});
}

// On a card, work of a micro-batch is done some time after it was asked for: only the step's end is known.
const std::vector<double>& Trainer::observed_seconds(const Step& step) const {
  return session_.device->is_host() ? step.sums.micro_batch_seconds : step.sums.compute_seconds;
}

double Trainer::slowest_rank(const Step& step) const {
  const std::vector<double>& seconds = observed_seconds(step);
  const size_t pieces = seconds.size() / step.sums.compute_seconds.size();
  double slowest = 0;
  for (size_t i = 0; pieces > 0 && i < seconds.size(); i += pieces)
    slowest = std::max(slowest, std::accumulate(seconds.begin() + static_cast<ptrdiff_t>(i),
                                                seconds.begin() + static_cast<ptrdiff_t>(i + pieces), 0.0));
  return slowest;
}

void Trainer::report(const Step& step, const Stopwatch& whole) {
  const double seconds = whole.seconds();
  if (!step.work.balance.note.empty()) log::info("{}", step.work.balance.note);
  exposed_.add(step.reduced.exposed_seconds);
  compute_.add(mean(step.sums.compute_seconds));
  // Waiting for data is no property of the machine: the simulator's steps have theirs in time.
  other_.add(seconds - step.work.wait_seconds - slowest_rank(step) - step.reduced.exposed_seconds);
  StepReport report;
  report.step = finished_;
  report.total_steps = total_steps_;
  const double weight = step.work.global_loss_weight;
  report.loss = weight > 0 ? step.sums.loss_sum / weight : std::numeric_limits<double>::quiet_NaN();
  report.learning_rate = step.stats.learning_rate;
  report.grad_norm = step.stats.grad_norm;
  report.skipped = step.stats.skipped;
  report.supervised_tokens = static_cast<int64_t>(weight);
  report.tokens = step.work.global_rows;
  report.samples = step.work.global_samples;
  report.step_seconds = seconds;
  const lf_device_info& device = session_.device->info();
  const double peak = compute_dtype(config_) == LF_DTYPE_BF16 ? device.peak_flops_bf16 : device.peak_flops_fp32;
  if (peak > 0) report.mfu = step_flops(step.work) / (seconds * peak);
  const ResidentMemory memory = resident_memory();
  report.memory_bytes = memory.now_bytes;
  report.peak_memory_bytes = memory.peak_bytes;
  if (device.torch_mode != LF_TORCH_BUILT_IN) {
    const lf_memory_stats stats = session_.device->memory_stats();
    report.memory_bytes = static_cast<int64_t>(stats.allocated_bytes);
    report.peak_memory_bytes = static_cast<int64_t>(stats.peak_bytes);
  }
  report.data_wait_seconds = step.work.wait_seconds;
  if (request_.world_size > 1) report.balance = balance_report(step.work.balance, step.sums.compute_seconds);
  report.model_seconds = step.spent.model_seconds;
  report.peer_wait_seconds = step.spent.peer_wait_seconds;
  report.reduction_exposed_seconds = step.reduced.exposed_seconds;
  report.optimizer_seconds = step.spent.optimizer_seconds;
  report.cpu_seconds = whole.process_cpu_seconds();
  report.thread_cpu_seconds = whole.thread_cpu_seconds();
  report.model_cpu_seconds = step.spent.model_cpu_seconds;
  report.optimizer_cpu_seconds = step.spent.optimizer_cpu_seconds;
  if (const CopiedBytes bytes = copied_ ? copied_() : CopiedBytes{}; bytes.all > 0)
    report.copies_hidden = static_cast<double>(bytes.hidden) / static_cast<double>(bytes.all);
  report.unix_seconds = unix_now();
  report.elapsed_seconds = now() - started_;
  const std::vector<std::string>& names = session_.model->description().aux_names;
  for (size_t k = 0; k < names.size(); ++k)
    report.aux.emplace_back(names[k], weight > 0 ? step.sums.aux[k] / weight : 0);
  metrics_->write(std::move(report));
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
  writer_.save(state, state_tensors(trained_state()));
}

// Why the last checkpoint could not be written; none where it stands, and on ranks that write none.
std::optional<Error> Trainer::failure_of_saving() {
  if (!leads()) return std::nullopt;
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

// Which operators a device left to the CPU ([device] op_fallback), summed over the ranks.
void Trainer::record_operators_on_cpu() {
  std::map<std::string, uint64_t> counts;
  for (const std::string& health : control_->all_gather(session_.device->health())) {
    const nlohmann::json parsed = nlohmann::json::parse(health, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("operators_on_cpu")) continue;
    for (const auto& [name, count] : parsed["operators_on_cpu"].items()) counts[name] += count.get<uint64_t>();
  }
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
    if (unsaved) export_models_instead(*unsaved);
    log::info("trained {}; checkpoint in {}", counted(finished_, "step"), directory_.checkpoints().string());
    try {
      export_models();
    } catch (const Error& error) {
      fail(error.exit(), "{}; the checkpoint of step {} is whole: {} then writes the model alone", error.what(),
           finished_, go_on());
    }
    metrics_->finish("done");
    if (!request_.go_on.empty()) log::info("--fresh starts over; to go on with this run: {}", go_on());
  }
  control_->barrier();
}

// Where there is no room for the last checkpoint there may be some for the weights alone, which are what was wanted.
void Trainer::export_models_instead(const Error& unsaved) {
  std::string model = "and no model directory was asked for";
  try {
    export_models();
    if (config_.checkpoint.export_model)
      model = fmt::format("the model of that step is whole in {}", directory_.model().string());
  } catch (const Error& error) {
    model = fmt::format("the model directory neither: {}", error.what());
  }
  fail(unsaved.exit(), "the checkpoint of step {}, the last, could not be written: {}; {}; {}", finished_,
       unsaved.what(), model, way_on());
}

TrainedState Trainer::trained_state() {
  return {.store = &store_, .optimizer = &optimizer_, .average = average_ ? &*average_ : nullptr};
}

void Trainer::start_average() {
  if (store_.state_on_device())
    average_.emplace(average_on_device(*session_.device, store_));
  else
    average_.emplace(store_.master(), request_.threads);
}

// After the last checkpoint: the average takes the weights' place in memory, where exports read them.
void Trainer::export_models() {
  const auto take_average = [&] { copy_average(trained_state()); };
  const auto write = [&](const std::filesystem::path& model) {
    source_.export_model(store_, config_.checkpoint.export_dtype, session_.model_config, tokenizer_folder(config_),
                         model);
  };
  const bool instead = average_ && config_.ema.export_as == "instead";
  if (instead) take_average();
  if (!session_.model->description().adapters.empty()) {
    source_.export_adapters(store_, config_, session_.model_config, directory_.path() / "adapter");
    log::info("adapters, for peft: {}", (directory_.path() / "adapter").string());
  }
  if (!config_.checkpoint.export_model) return;
  write(directory_.model());
  log::info("model directory{}: {}", instead ? ", of the moving average" : "", directory_.model().string());
  if (instead && std::filesystem::remove_all(directory_.averaged_model()) > 0)
    log::warning("removed {}: ema.export = \"instead\" writes none, and this one was of an export before",
                 directory_.averaged_model().string());
  if (average_ && !instead) {
    take_average();
    write(directory_.averaged_model());
    log::info("of the moving average: {}", directory_.averaged_model().string());
  }
  if (const std::string command = opening_command(session_.model_config, directory_.model()); !command.empty())
    log::info("open it with: {}", command);
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
