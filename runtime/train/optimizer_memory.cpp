#include "train/optimizer_memory.h"

#include "core/amount.h"
#include "core/error.h"
#include "optimizer/adamw_on_device.h"
#include "optimizer/parameter_groups.h"

namespace lf {
namespace {

// What is allocated there before the first step: values, gradients, and with the state master values, both moments, and
// their average.
uint64_t needed_bytes(const JobConfig& config, const Description& description, const Freezing& freezing) {
  const uint64_t item = compute_dtype(config) == LF_DTYPE_F32 ? 4 : 2;
  const uint64_t average = config.ema.decay > 0 ? 4 : 0;
  uint64_t bytes = 0;
  for (size_t p = 0; p < description.parameters.size(); ++p) {
    if (description.parameters[p].tied_to >= 0) continue;
    const auto n = static_cast<uint64_t>(element_count(description.parameters[p]));
    bytes += freezing.frozen[p] ? n * item : n * (item + 4 + 8 + (item == 4 ? 0 : 4) + average);
  }
  return bytes;
}

// What this rank alone says against the device; `seen` is what its trial gave.
std::string obstacle_to_device(const JobConfig& config, const Session& session, const Freezing& freezing,
                               std::string& seen) {
  const Device& device = *session.device;
  const bool demanded = config.optimizer.memory == "device";
  if (!demanded) {
    const uint64_t needed = needed_bytes(config, session.model->description(), freezing);
    const uint64_t free = device.memory_stats().free_bytes;
    if ((device.info().abilities & LF_DEVICE_MEMORY_INFO) != 0 && needed > free)
      return fmt::format("the state takes {} MB there, and {} are free", needed / 1'000'000, free / 1'000'000);
  }
  const AdamWTrial trial = try_adamw_on(device, /*all=*/demanded);
  seen = trial.seen;
  return trial.obstacle;
}

}  // namespace

void require_memory_beside_the_hosts(const JobConfig& config, std::string_view host_device) {
  if (config.optimizer.memory == "device")
    fail(Exit::kUnavailable,
         "optimizer.memory: expected the memory of a card, as the job says, but the memory of {} is the host's; write "
         "\"auto\" or \"host\", or name another device",
         host_device);
}

OptimizerMemory choose_optimizer_memory(const JobConfig& config, const Session& session, const Freezing& freezing,
                                        Exchange& control) {
  const Device& device = *session.device;
  if (device.is_host()) {
    require_memory_beside_the_hosts(config, device.id());
    return {false, "host", fmt::format("the memory of {} is the host's", device.id())};
  }
  if (config.optimizer.memory == "host") return {false, "host", "optimizer.memory is host"};
  std::string seen;
  const std::vector<std::string> told = control.all_gather(obstacle_to_device(config, session, freezing, seen));
  std::string obstacle;
  for (size_t rank = 0; rank < told.size() && obstacle.empty(); ++rank)
    if (!told[rank].empty()) obstacle = control.size() == 1 ? told[rank] : fmt::format("rank {}: {}", rank, told[rank]);
  if (obstacle.empty()) return {true, "device", seen};
  if (config.optimizer.memory == "device")
    fail(Exit::kUnavailable,
         "optimizer.memory: expected AdamW in the memory of {}, as the job says, but {}; write \"auto\" or \"host\"",
         device.id(), obstacle);
  return {false, "host", obstacle};
}

AdamW make_optimizer(const JobConfig& config, const Device& device, const ParameterStore& store,
                     const Freezing& freezing, int threads) {
  std::vector<OptimizedParameter> parameters =
      optimized_parameters(store, parameter_groups(store.description(), freezing, config.optimizer), config.optimizer);
  if (store.state_on_device()) {
    std::unique_ptr<AdamWMemory> memory = adamw_on_device(device, store, ranges_of(parameters));
    return AdamW(config.optimizer, std::move(parameters), std::move(memory));
  }
  return AdamW(OptimizerInputs{.settings = config.optimizer,
                               .master = store.master(),
                               .gradients = store.gradients(),
                               .compute_bf16 = store.compute_bf16(),
                               .parameters = std::move(parameters),
                               .threads = threads});
}

}  // namespace lf
