#include "check/check.h"

#include <cmath>
#include <numeric>

#include <unistd.h>

#include "check/memory_estimate.h"
#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/order.h"
#include "load/estimate.h"
#include "load/model_calls.h"
#include "train/session.h"
#include "train/weights.h"

namespace lf {
namespace {

constexpr uint64_t kMemorySamples = 64;     // whose packs are costed
constexpr uint64_t kEstimateSamples = 512;  // whose features count the steps of epochs

std::string size_text(uint64_t bytes) {
  return bytes < 1'000'000'000 ? fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6)
                               : fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

// The first micro-batches of the run, packed in order: enough to see what a heavy one costs.
std::vector<BatchFeatures> first_batches(const JobConfig& config, const Dataset& dataset, const Model& model) {
  const ModelCalls calls(model.api(), model.handle());
  const Order order(dataset.size(), config.job.seed, config.data.shuffle);
  std::vector<BatchFeatures> batches;
  int64_t rows = 0;
  for (uint64_t i = 0; i < std::min(kMemorySamples, dataset.size()); ++i) {
    AtomFeatures features;
    try {
      const Sample sample = dataset.sample(order.at(i));
      features = calls.features(sample, 0);
      if (features.rows() > config.data.max_tokens) {
        if (config.data.too_long != "cut") continue;
        features = calls.features(sample, config.data.max_tokens);
      }
    } catch (const BadSample&) {
      continue;  // training names, counts and skips it
    }
    if (batches.empty() || !config.data.packing || rows + features.rows() > config.data.max_tokens) {
      batches.emplace_back(features.numbers.size());
      rows = 0;
    }
    rows += features.rows();
    for (size_t c = 0; c < features.numbers.size(); ++c)
      batches.back()[c].insert(batches.back()[c].end(), features.numbers[c].begin(), features.numbers[c].end());
  }
  return batches;
}

uint64_t host_memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

int run_check(const ResolvedJob& job, int processes) {
  const JobConfig& config = job.config;
  SessionOptions options;
  options.open_device = false;
  const Session session(config, options);
  const Description& description = session.model->description();
  const Freezing freezing = freeze(description, config.model.freeze);
  const WeightSource source(config, description);
  const Dataset dataset(config.data);

  int64_t trained = 0;
  std::vector<StateTensor> saved;
  for (size_t p = 0; p < description.parameters.size(); ++p) {
    const ParameterInfo& parameter = description.parameters[p];
    if (parameter.tied_to >= 0 || freezing.frozen[p]) continue;
    const int64_t elements = element_count(parameter);
    trained += elements;
    saved.push_back(whole_tensor("parameters", parameter.name, DType::kF32, parameter.shape, nullptr));
    saved.push_back(whole_tensor("optimizer", parameter.name + ".m", DType::kF32, {elements}, nullptr));
    saved.push_back(whole_tensor("optimizer", parameter.name + ".v", DType::kF32, {elements}, nullptr));
  }
  fmt::print("model         {}: {:.1f}M parameters, {:.1f}M trained, computed in {}\n", session.model->plugin_id(),
             static_cast<double>(description.parameter_count()) / 1e6, static_cast<double>(trained) / 1e6,
             config.precision.compute);
  for (const Component& component : description.components) {
    int64_t own = 0;
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p)
      if (description.parameters[p].tied_to < 0) own += element_count(description.parameters[p]);
    fmt::print("  {:<12}{:.1f}M in {} units{}\n", component.name, static_cast<double>(own) / 1e6, component.n_units,
               freezing.all_frozen(component) ? ", frozen" : "");
  }
  for (const Dataset::File& file : dataset.files())
    fmt::print("data          {}: {} samples, {}\n", file.path.string(), file.samples, file.format);

  int64_t steps = config.job.steps;
  bool exact = true;
  if (steps == 0) {
    LocalExchange alone;
    JobConfig all_ranks = config;  // one rank that takes everybody's micro-batches packs what they would
    all_ranks.data.micro_batches *= processes;
    LoaderInputs inputs;
    inputs.config = &all_ranks;
    inputs.dataset = &dataset;
    inputs.api = session.model->api();
    inputs.model = session.model->handle();
    inputs.exchange = &alone;
    inputs.max_samples = std::max<uint64_t>(
        1, static_cast<uint64_t>(std::ceil(config.job.epochs * static_cast<double>(dataset.size()))));
    const StepEstimate estimate = estimate_steps(inputs, kEstimateSamples);
    steps = estimate.steps;
    exact = estimate.exact;
  }
  const int64_t tokens = config.data.max_tokens * config.data.micro_batches * processes;
  fmt::print("steps         {}{} of at most {} tokens: {} ranks x {} micro-batches x {}\n", exact ? "" : "about ",
             steps, tokens, processes, config.data.micro_batches, config.data.max_tokens);

  const std::vector<MemoryPart> parts =
      estimate_memory(config, *session.model, freezing, first_batches(config, dataset, *session.model), processes);
  uint64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  fmt::print("memory        {} for each of {} ranks\n", size_text(total), processes);
  for (const MemoryPart& part : parts) fmt::print("  {:<28}{:>10}\n", part.name, size_text(part.bytes));
  if (config.device.name == "cpu" && total * static_cast<uint64_t>(processes) > host_memory_bytes())
    fmt::print("  warning: {} on this host, which has {}; try {}fewer processes or other hardware\n",
               size_text(total * static_cast<uint64_t>(processes)), size_text(host_memory_bytes()),
               config.memory.recompute == "whole" ? "" : "memory.recompute = \"whole\", ");

  const uint64_t bytes = checkpoint_bytes(saved);
  PosixFileSystem files;
  const uint64_t free = files.available_bytes(config.job.output);
  const uint64_t needed = bytes * static_cast<uint64_t>(config.checkpoint.keep + 1);
  fmt::print("checkpoint    {}, {} with {} kept and one being written; {} free\n", size_text(bytes), size_text(needed),
             config.checkpoint.keep, size_text(free));
  if (needed > free) fmt::print("  warning: there is too little room in {}\n", config.job.output.string());
  fmt::print("job file is valid\n");
  return static_cast<int>(Exit::kDone);
}

}  // namespace lf
