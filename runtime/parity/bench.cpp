#include "parity/bench.h"

#include <memory>
#include <utility>
#include <vector>

#include "optimizer/adamw_on_device.h"
#include "train/weights.h"

namespace lf {

Bench::Bench(const JobConfig& config, const SessionOptions& options, const Device& common)
    : session(config, options),
      device(common),
      place(place_of_model(session, device)),
      freezing(freeze(session.model->description(), {})),
      store(session.model->description(), freezing, device, compute_dtype(config), StatePlaces{.on_device = true}),
      runner(*session.model, store, freezing, session.parallel, device, place, LF_RECOMPUTE_NONE) {
  WeightSource(config, session.model->description()).fill(store, config.job.seed);
}

RunResult Bench::run(const MicroBatch& batch, bool outputs) {
  runner.begin_step();
  store.zero_gradients();
  RunResult result = runner.run(batch, 0, RunOptions{.outputs = outputs, .loss_scale = 1 / batch.loss_weight});
  store.fetch_gradients();
  return result;
}

AdamW Bench::optimizer(const OptimizerSection& settings) const {
  std::vector<OptimizedParameter> parameters;
  for (const ParameterSlot& slot : store.slots())
    if (slot.trained)
      parameters.push_back({store.description().parameters[slot.parameter].name, slot.offset, slot.elements,
                            static_cast<uint32_t>(slot.unit), true, 1});
  if (store.state_on_device()) {
    std::unique_ptr<AdamWMemory> memory = adamw_on_device(device, store, ranges_of(parameters));
    return AdamW(settings, std::move(parameters), std::move(memory));
  }
  return AdamW(OptimizerInputs{.settings = settings,
                               .master = store.master(),
                               .gradients = store.gradients(),
                               .compute_bf16 = store.compute_bf16(),
                               .parameters = std::move(parameters)});
}

}  // namespace lf
