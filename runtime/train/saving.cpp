#include "train/saving.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "checkpoint/hash.h"
#include "config/config.h"
#include "core/error.h"

namespace lf {
namespace {

// What says only where, how fast, how many bad samples are borne, or how many samples make a step: the position in the
// data is counted in samples, so a run may go on with more ranks of fewer micro-batches, or the other way round.
bool free_to_change(std::string_view option) {
  static constexpr std::string_view kFree[] = {"data.media_root", "data.max_decoded_pixels", "data.max_bad",
                                               "data.workers",    "data.prefetch_steps",     "data.micro_batches"};
  return std::ranges::find(kFree, option) != std::end(kFree);
}

}  // namespace

std::vector<StateTensor> state_tensors(const TrainedState& state) {
  const ParameterStore& store = *state.store;
  std::vector<StateTensor> tensors;
  for (const ParameterSlot& slot : store.slots()) {
    if (!slot.trained) continue;
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    tensors.push_back(
        whole_tensor("parameters", parameter.name, DType::kF32, parameter.shape, store.master().data() + slot.offset));
    if (state.average != nullptr)
      tensors.push_back(whole_tensor("ema", parameter.name + kAverageSuffix, DType::kF32, parameter.shape,
                                     state.average->values().data() + slot.offset));
  }
  for (const OptimizerState& moments : state.optimizer->state()) {
    const std::vector<int64_t> flat{moments.parameter->elements};
    const std::string& name = moments.parameter->name;
    tensors.push_back(whole_tensor("optimizer", name + ".m", DType::kF32, flat, moments.m.data()));
    tensors.push_back(whole_tensor("optimizer", name + ".v", DType::kF32, flat, moments.v.data()));
    tensors.push_back(whole_tensor("optimizer", name + ".step", DType::kI64, {}, moments.step));
  }
  return tensors;
}

void restore(const Checkpoint& checkpoint, const TrainedState& state) {
  std::set<std::string> unread;
  for (const std::string& name : checkpoint.names())
    if (state.average != nullptr || !name.ends_with(kAverageSuffix)) unread.insert(name);
  for (const StateTensor& tensor : state_tensors(state)) {
    // The same views that a save reads from are filled here.
    checkpoint.read(tensor.name, tensor.shape, tensor.dtype, const_cast<void*>(tensor.pieces.front().data));
    unread.erase(tensor.name);
  }
  if (!unread.empty())
    fail(
        Exit::kBadData,
        "{}: holds {} and {} more that this job does not train; was model.freeze changed? Resume with the same job, or "
        "start over with --fresh",
        checkpoint.path().string(), *unread.begin(), unread.size() - 1);
  state.store->refresh_compute();
}

std::map<std::string, std::string> resumable_settings(const JobConfig& config, const Description& description) {
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
  return settings;
}

void require_same_settings(const Checkpoint& checkpoint, const std::map<std::string, std::string>& now) {
  const std::map<std::string, std::string>& then = checkpoint.state().settings;
  const auto at = [](const std::map<std::string, std::string>& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("not known") : found->second;
  };
  std::set<std::string> names;
  for (const auto& [name, value] : then) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  std::string changes;
  for (const std::string& name : names) {
    if (at(then, name) == at(now, name) || free_to_change(name)) continue;
    changes += name == "model parameters"
                   ? "\n  model parameters: other names or shapes than were saved; was config.json changed?"
                   : fmt::format("\n  {}: was {}, is {}", name, at(then, name), at(now, name));
  }
  if (!changes.empty())
    fail(Exit::kConfig, "{}: this job is not the one that was saved; undo the change, or start over with --fresh:{}",
         checkpoint.path().string(), changes);
}

}  // namespace lf
