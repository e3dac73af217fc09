#include "train/saving.h"

#include <set>

#include <fmt/ranges.h>

#include "checkpoint/hash.h"
#include "config/config.h"
#include "core/error.h"

namespace lf {

std::vector<StateTensor> state_tensors(const ParameterStore& store, AdamW& optimizer) {
  std::vector<StateTensor> tensors;
  for (const ParameterSlot& slot : store.slots()) {
    if (!slot.trained) continue;
    const ParameterInfo& parameter = store.description().parameters[slot.parameter];
    tensors.push_back(
        whole_tensor("parameters", parameter.name, DType::kF32, parameter.shape, store.master().data() + slot.offset));
  }
  for (const OptimizerState& state : optimizer.state()) {
    const std::vector<int64_t> flat{state.parameter->elements};
    const std::string& name = state.parameter->name;
    tensors.push_back(whole_tensor("optimizer", name + ".m", DType::kF32, flat, state.m.data()));
    tensors.push_back(whole_tensor("optimizer", name + ".v", DType::kF32, flat, state.v.data()));
    tensors.push_back(whole_tensor("optimizer", name + ".step", DType::kI64, {}, state.step));
  }
  return tensors;
}

void restore(const Checkpoint& checkpoint, const ParameterStore& store, AdamW& optimizer) {
  std::set<std::string> unread;
  for (const std::string& name : checkpoint.names()) unread.insert(name);
  for (const StateTensor& tensor : state_tensors(store, optimizer)) {
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
  store.refresh_compute();
}

std::string resumable_hash(const JobConfig& config, const Description& description) {
  std::string text;
  for (const char* option :
       {"job.seed", "model", "data.path", "data.format", "data.max_tokens", "data.micro_batches", "data.too_long",
        "data.packing", "data.shuffle", "data.train_on", "optimizer", "schedule", "precision"})
    text += option_json(config, option).value_or("null") + "\n";
  for (const ParameterInfo& parameter : description.parameters)
    text += fmt::format("{} {}\n", parameter.name, fmt::join(parameter.shape, "x"));
  return hash_hex(text);
}

}  // namespace lf
