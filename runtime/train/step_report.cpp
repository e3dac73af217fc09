#include "train/step_report.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "core/log.h"
#include "core/terminal.h"
#include "train/resident_memory.h"

namespace lf {
namespace {

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

MetricsConfig metrics_config(const TrainRequest& request, const std::filesystem::path& folder, int64_t finished_steps) {
  const JobConfig& job = request.job.config;
  MetricsConfig config;
  config.folder = folder;
  config.title = job.job.name;
  config.finished_steps = finished_steps;
  config.start_unix_seconds = unix_now();
  config.tensorboard = job.metrics.tensorboard;
  config.progress.terminal = request.terminal;
  config.progress.seconds = job.metrics.seconds;
  config.progress.colour = std::getenv("NO_COLOR") == nullptr;
  config.progress.unicode = shows_unicode(std::getenv("LC_ALL"), std::getenv("LC_CTYPE"), std::getenv("LANG"));
  return config;
}

double slowest_rank(const TrainedStep& step, const Device& device) {
  const std::vector<double>& seconds = observed_seconds(step, device);
  const size_t pieces = seconds.size() / step.sums.compute_seconds.size();
  double slowest = 0;
  for (size_t i = 0; pieces > 0 && i < seconds.size(); i += pieces)
    slowest = std::max(slowest, std::accumulate(seconds.begin() + static_cast<ptrdiff_t>(i),
                                                seconds.begin() + static_cast<ptrdiff_t>(i + pieces), 0.0));
  return slowest;
}

}  // namespace

const std::vector<double>& observed_seconds(const TrainedStep& step, const Device& device) {
  return device.is_host() ? step.sums.micro_batch_seconds : step.sums.compute_seconds;
}

StepReporter::StepReporter(const TrainRequest& request, const Session& session, const ParameterStore& store,
                           const Freezing& freezing, const std::filesystem::path& folder, int64_t finished_steps)
    : request_(request),
      session_(session),
      store_(store),
      freezing_(freezing),
      metrics_(metrics_config(request, folder, finished_steps)) {}

void StepReporter::begin() { started_ = steady_now(); }

// Floating-point operations of this rank's part of a step: forward, and backward where something is trained. Adapters'
// own are not counted: they are small beside those of their maps.
double StepReporter::step_flops(const StepWork& work) const {
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

void StepReporter::report(const TrainedStep& step, int64_t total_steps, const Stopwatch& whole,
                          const CopiedBytes& copied) {
  const double seconds = whole.seconds();
  if (!step.work.balance.note.empty()) log::info("{}", step.work.balance.note);
  exposed_.add(step.reduced.exposed_seconds);
  compute_.add(mean(step.sums.compute_seconds));
  // Waiting for data is no property of the machine: the simulator's steps have theirs in time.
  other_.add(seconds - step.work.wait_seconds - slowest_rank(step, *session_.device) - step.reduced.exposed_seconds);
  StepReport report;
  report.step = step.number;
  report.total_steps = total_steps;
  const double weight = step.work.global_loss_weight;
  report.loss = weight > 0 ? step.sums.loss_sum / weight : std::numeric_limits<double>::quiet_NaN();
  report.learning_rate = step.stats.learning_rate;
  report.grad_norm = step.stats.grad_norm;
  report.skipped = step.stats.skipped;
  report.supervised_tokens = static_cast<int64_t>(weight);
  report.tokens = step.work.global_rows;
  report.samples = step.work.global_samples;
  const DataPosition& after = step.work.after;
  report.counted = {after.samples_seen, after.bad_samples, after.long_samples, after.cut_samples};
  report.step_seconds = seconds;
  const lf_device_info& device = session_.device->info();
  const double peak =
      compute_dtype(request_.job.config) == LF_DTYPE_BF16 ? device.peak_flops_bf16 : device.peak_flops_fp32;
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
  if (copied.all > 0) report.copies_hidden = static_cast<double>(copied.hidden) / static_cast<double>(copied.all);
  report.unix_seconds = unix_now();
  report.elapsed_seconds = steady_now() - started_;
  const std::vector<std::string>& names = session_.model->description().aux_names;
  for (size_t k = 0; k < names.size(); ++k)
    report.aux.emplace_back(names[k], weight > 0 ? step.sums.aux[k] / weight : 0);
  metrics_.write(std::move(report));
}

ProfiledRun StepReporter::means() const {
  ProfiledRun run;
  run.exposed_seconds = exposed_.mean();
  run.compute_seconds = compute_.mean();
  run.other_seconds = other_.mean();
  return run;
}

}  // namespace lf
