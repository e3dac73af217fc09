#include "train/saving.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "checkpoint/hash.h"
#include "config/config.h"
#include "core/amount.h"
#include "core/error.h"

namespace lf {
namespace {

constexpr const char *kSamples = "data set samples", *kContent = "data set content";
constexpr int64_t kRestoreElements = 4 << 20;  // at a time, into memory that is not the host's

// What says only where, how fast, how many bad samples are borne, or how many samples make a step: the position in the
// data is counted in samples, so a run may go on with more ranks of fewer micro-batches, or the other way round.
bool free_to_change(std::string_view option) {
  static constexpr std::string_view kFree[] = {"data.media_root", "data.max_decoded_pixels", "data.max_bad",
                                               "data.workers",    "data.prefetch_steps",     "data.micro_batches",
                                               "optimizer.memory"};
  return std::ranges::find(kFree, option) != std::end(kFree);
}

StateTensor tensor_of(const char* group, const std::string& name, const std::vector<int64_t>& shape, FloatRange range) {
  if (range.host != nullptr) return whole_tensor(group, name, DType::kF32, shape, range.host);
  StateTensor tensor = whole_tensor(group, name, DType::kF32, shape, nullptr);
  tensor.pieces.front().read = [read = std::move(range.read)](uint64_t at, std::span<std::byte> out) {
    read(static_cast<int64_t>(at / sizeof(float)), {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  };
  return tensor;
}

// Every tensor of the state, in the order of the files: values(group, name, shape, range), or step(name, count).
template <typename Values, typename Step>
void each_tensor(const TrainedState& state, const Values& values, const Step& step) {
  const ParameterStore& store = *state.store;
  for (const ParameterSlot& slot : store.slots()) {
    if (!slot.trained) continue;
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    values("parameters", parameter.name, parameter.shape, store.master_range(slot));
    if (state.average != nullptr)
      values("ema", parameter.name + kAverageSuffix, parameter.shape, state.average->range(slot.offset, slot.elements));
  }
  for (const OptimizerState& moments : state.optimizer->state()) {
    const std::vector<int64_t> flat{moments.parameter->elements};
    const std::string& name = moments.parameter->name;
    values("optimizer", name + ".m", flat, moments.m);
    values("optimizer", name + ".v", flat, moments.v);
    step(name + ".step", moments.step);
  }
}

void read_into(const FloatRange& range, const Checkpoint& checkpoint, const std::string& name,
               const std::vector<int64_t>& shape) {
  if (range.host != nullptr) return checkpoint.read(name, shape, DType::kF32, range.host);
  std::vector<float> chunk(static_cast<size_t>(std::min(range.elements, kRestoreElements)));
  for (int64_t at = 0; at < range.elements; at += kRestoreElements) {
    const std::span<float> part =
        std::span(chunk).first(static_cast<size_t>(std::min(kRestoreElements, range.elements - at)));
    checkpoint.read_elements(name, shape, at, part);
    range.write(at, part);
  }
}

}  // namespace

std::vector<StateTensor> state_tensors(const TrainedState& state) {
  std::vector<StateTensor> tensors;
  each_tensor(
      state,
      [&](const char* group, const std::string& name, const std::vector<int64_t>& shape, const FloatRange& range) {
        tensors.push_back(tensor_of(group, name, shape, range));
      },
      [&](const std::string& name, const int64_t* count) {
        tensors.push_back(whole_tensor("optimizer", name, DType::kI64, {}, count));
      });
  return tensors;
}

void restore(const Checkpoint& checkpoint, const TrainedState& state) {
  std::set<std::string> unread;
  for (const std::string& name : checkpoint.names())
    if (state.average != nullptr || !name.ends_with(kAverageSuffix)) unread.insert(name);
  each_tensor(
      state,
      [&](const char*, const std::string& name, const std::vector<int64_t>& shape, const FloatRange& range) {
        read_into(range, checkpoint, name, shape);
        unread.erase(name);
      },
      [&](const std::string& name, int64_t* count) {
        checkpoint.read(name, {}, DType::kI64, count);
        unread.erase(name);
      });
  if (!unread.empty())
    fail(
        Exit::kBadData,
        "{}: holds {} and {} more that this job does not train; was model.freeze changed? Resume with the same job, or "
        "start over with --fresh",
        checkpoint.path().string(), *unread.begin(), unread.size() - 1);
  state.store->refresh_compute();
}

void copy_average(const TrainedState& state) {
  std::vector<float> chunk;
  for (const ParameterSlot& slot : state.store->slots()) {
    if (!slot.trained) continue;
    const FloatRange from = state.average->range(slot.offset, slot.elements), to = state.store->master_range(slot);
    for (int64_t at = 0; at < slot.elements; at += kRestoreElements) {
      chunk.resize(static_cast<size_t>(std::min(kRestoreElements, slot.elements - at)));
      from.read(at, chunk);
      to.write(at, chunk);
    }
  }
}

std::map<std::string, std::string> resumable_settings(const JobConfig& config, const Description& description,
                                                      const Dataset* dataset) {
  const std::set<std::string_view> tables = {"model", "lora", "data", "optimizer", "schedule", "precision"};
  std::map<std::string, std::string> settings;
  for (const std::string& name : option_names()) {
    const std::string_view table = std::string_view(name).substr(0, name.find('.'));
    if (name == "job.seed" || (tables.contains(table) && !free_to_change(name)))
      settings[name] = option_json(config, name).value_or("null");
  }
  // Only where there is one: checkpoints from before averages were kept go on.
  if (config.ema.decay > 0)
    for (const char* name : {"ema.decay", "ema.warmup"}) settings[name] = option_json(config, name).value_or("null");
  std::string parameters;
  for (const ParameterInfo& parameter : description.parameters)
    parameters += fmt::format("{} {}\n", parameter.name, fmt::join(parameter.shape, "x"));
  settings["model parameters"] = hash_hex(parameters);
  if (dataset != nullptr) {
    settings[kSamples] = std::to_string(dataset->size());
    settings[kContent] = hash_hex(dataset->fingerprint());
  }
  return settings;
}

void require_same_settings(const Checkpoint& checkpoint, const std::map<std::string, std::string>& now) {
  const std::map<std::string, std::string>& then = checkpoint.state().settings;
  const auto at = [](const std::map<std::string, std::string>& settings, const std::string& name) {
    const auto found = settings.find(name);
    if (found != settings.end()) return found->second;
    // Left out where no average is kept, or from before there was the option: its default.
    return name == "ema.decay" ? std::string("0") : option_json(JobConfig{}, name).value_or("not known");
  };
  std::string changes;
  const auto differs = [&](const char* name) {
    return then.contains(name) && now.contains(name) && at(then, name) != at(now, name);
  };
  if (differs(kSamples))
    changes += fmt::format("\n  data.path: the data set had {}, has {}; restore its files",
                           counted(std::stoull(at(then, kSamples)), "sample"), at(now, kSamples));
  else if (differs(kContent))
    changes += fmt::format("\n  data.path: the data set still has {}, but other bytes than it had; restore its files",
                           counted(std::stoull(at(now, kSamples)), "sample"));
  std::set<std::string> names;
  for (const auto& [name, value] : then) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  for (const std::string& name : names) {
    if (at(then, name) == at(now, name) || free_to_change(name) || name == kSamples || name == kContent) continue;
    changes += name == "model parameters"
                   ? "\n  model parameters: other names or shapes than were saved; was config.json changed?"
                   : fmt::format("\n  {}: was {}, is {}", name, at(then, name), at(now, name));
  }
  if (!changes.empty())
    fail(Exit::kConfig, "{}: this job is not the one that was saved; undo the change, or start over with --fresh:{}",
         checkpoint.path().string(), changes);
}

}  // namespace lf
