#include "model/runner.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf {

// The functions of lf.parallel/1; a struct so that ParallelHost can befriend them.
struct ParallelTable {
  static ParallelHost& of(const lf_host* host) { return Host::state_of<ParallelHost>(host, LF_PARALLEL_EXTENSION); }

  static int32_t group_info(const lf_host*, lf_group group, int32_t* size, int32_t* rank) {
    if (group != nullptr) return LF_E_UNSUPPORTED;
    *size = 1;
    *rank = 0;
    return LF_OK;
  }

  // In a group of one every collective gives back what went in.
  static int32_t begin(const lf_host*, lf_group group, const lf_collective* what, lf_stream, lf_ticket* ticket,
                       lf_err* err) {
    return sdk::guard(err, [&] {
      if (group != nullptr) throw sdk::Failure(LF_E_UNSUPPORTED, "this runtime makes groups of one only");
      const int64_t bytes = sdk::element_count(what->in) * sdk::item_bytes(what->in.dtype);
      if (bytes != sdk::element_count(what->out) * sdk::item_bytes(what->out.dtype))
        throw sdk::Failure(LF_E_INVALID, "in a group of one a collective's input and output have the same size");
      const bool in_place = what->out.data == what->in.data || bytes == 0;
      if (!in_place && (what->in.device_uid != 0 || what->out.device_uid != 0))
        throw sdk::Failure(LF_E_UNSUPPORTED, "in a group of one collectives of device memory are in place only");
      if (!in_place) std::memcpy(what->out.data, what->in.data, static_cast<size_t>(bytes));
      *ticket = nullptr;
    });
  }

  static int32_t end(const lf_host*, lf_ticket, lf_stream, lf_err*) { return LF_OK; }

  static int32_t unit(const lf_host* host, lf_stage stage, uint32_t unit, int32_t what, uint64_t micro_batch, lf_stream,
                      lf_err* err) {
    return sdk::guard(err, [&] {
      ParallelHost& self = of(host);
      const auto found = self.stages_.find(stage);
      if (found == self.stages_.end()) throw sdk::Failure(LF_E_INVALID, "a unit was told for a stage nobody knows");
      if (self.on_unit) self.on_unit(found->second.component, found->second.first_unit + unit, what, micro_batch);
    });
  }

  static const lf_parallel_host* table() {
    static const lf_parallel_host the_table = [] {
      auto made = sdk::with_header<lf_parallel_host>();
      made.group_info = group_info;
      made.begin = begin;
      made.end = end;
      made.unit = unit;
      return made;
    }();
    return &the_table;
  }
};

ParallelHost::ParallelHost(Host& host) { host.offer(LF_PARALLEL_EXTENSION, ParallelTable::table(), this); }

Runner::Runner(const Model& model, const ParameterStore& store, const Freezing& freezing, ParallelHost& parallel,
               const Device& device, ModelPlace place, int recompute)
    : model_(model),
      store_(store),
      device_(device),
      freezing_(freezing),
      parallel_(parallel),
      touched_(store.units().size(), 0) {
  if (place == ModelPlace::kHost && !device.is_host()) copies_.emplace(store, device);
  const Description& description = model_.description();
  stages_.resize(description.components.size());
  for (uint32_t c = 0; c < stages_.size(); ++c) {
    for (size_t e = 0; e < description.edges.size(); ++e) {
      if (description.edges[e].to == c) stages_[c].in.push_back(e);
      if (description.edges[e].from == c) stages_[c].out.push_back(e);
    }
    stages_[c].forward = "forward of " + description.components[c].name;
    stages_[c].backward = "backward of " + description.components[c].name;
    bool upstream = false;
    for (const size_t e : stages_[c].in) upstream |= !stages_[description.edges[e].from].no_grad;
    stages_[c].no_grad = freezing_.all_frozen(description.components[c]) && !upstream;
    build(c, device, recompute);
    bind(c);
  }
  parallel_.on_unit = [this](uint32_t component, uint32_t unit, int32_t what, uint64_t micro_batch) {
    stages_[component].told_units = true;
    if (what == LF_UNIT_DONE_WEIGHTS) unit_done(store_.unit_index(component, unit), micro_batch);
  };
}

Runner::~Runner() {
  parallel_.on_unit = nullptr;
  lf_err err = sdk::make_err();
  for (Stage& stage : stages_)
    if (stage.handle != nullptr) {
      parallel_.forget(stage.handle);
      model_.api()->stage_free(stage.handle, &err);
    }
}

namespace {

// What the plugin does not offer is the job's to mend, and a device that is full or gone is nobody's bug.
Exit exit_of_setup(int32_t code) {
  switch (code) {
    case LF_E_UNSUPPORTED:
      return Exit::kConfig;
    case LF_E_NOMEM_DEVICE:
    case LF_E_NO_DEVICE:
    case LF_E_DEVICE_LOST:
      return Exit::kUnavailable;
    default:
      return Exit::kBug;
  }
}

}  // namespace

void Runner::build(uint32_t component, const Device& device, int recompute) {
  const Component& described = model_.description().components[component];
  const std::vector<uint8_t> per_unit(described.n_units, static_cast<uint8_t>(recompute));
  auto config = sdk::with_header<lf_stage_config>();
  config.component = component;
  config.n_units = described.n_units;
  config.id = component;
  config.device_uid = copies_ ? 0 : device.info().uid;
  config.dtype = store_.dtype();
  config.flags = stages_[component].no_grad ? LF_STAGE_NO_GRAD : 0;
  config.recompute = recompute == LF_RECOMPUTE_NONE ? nullptr : per_unit.data();
  if (recompute != LF_RECOMPUTE_NONE && (model_.api()->abilities & LF_MODEL_RECOMPUTE) == 0)
    fail(Exit::kConfig, "memory.recompute: model plugin {} does not offer recomputation; use \"none\"",
         model_.plugin_id());
  lf_err err = sdk::make_err();
  if (const int32_t code = model_.api()->stage_new(model_.handle(), &config, &stages_[component].handle, &err))
    fail(exit_of_setup(code), "model plugin {}: stage {}: {}", model_.plugin_id(), described.name, err.message);
  parallel_.know(stages_[component].handle, {component, 0});
}

void Runner::bind(uint32_t component) {
  const Component& described = model_.description().components[component];
  const std::vector<uint32_t>& unit_of = model_.description().parameter_unit;
  size_t p = described.first_parameter;
  const size_t end = p + described.n_parameters;
  auto adapter = described.adapters.begin();
  for (uint32_t unit = 0; unit < described.n_units; ++unit) {
    std::vector<lf_tensor> values, gradients;
    const auto lend = [&](size_t parameter) {
      values.push_back(copies_ ? copies_->value_view(parameter) : store_.value_view(parameter));
      gradients.push_back(copies_ ? copies_->gradient_view(parameter) : store_.gradient_view(parameter));
    };
    for (; p < end && unit_of[p] == unit; ++p) lend(p);
    for (; adapter != described.adapters.end() && unit_of[*adapter] == unit; ++adapter) lend(*adapter);
    lf_err err = sdk::make_err();
    if (const int32_t code = model_.api()->bind(stages_[component].handle, unit, values.data(), gradients.data(),
                                                static_cast<uint32_t>(values.size()), &err))
      fail(exit_of_setup(code), "model plugin {}: bind {} unit {}: {}", model_.plugin_id(), described.name, unit,
           err.message);
  }
}

void Runner::begin_step() {
  std::fill(touched_.begin(), touched_.end(), uint8_t{0});
  if (copies_) copies_->fetch_values();
}

void Runner::unit_done(size_t unit_index, uint64_t micro_batch) {
  touched_[unit_index] = 1;
  if (copies_) copies_->send_gradients(unit_index);
  if (on_unit_done) on_unit_done(unit_index, micro_batch);
}

// What the host computes is not watched: it takes as long as it does.
CallWatch* Runner::begin_pass(const std::string& pass) {
  if (!copies_) return device_.watch();
  ++passes_on_host_[pass];
  return nullptr;
}

void Runner::drop(uint64_t micro_batch, size_t stages) {
  lf_err err = sdk::make_err();
  for (size_t c = 0; c < stages; ++c) model_.api()->drop(stages_[c].handle, micro_batch, &err);
}

namespace {

// A tensor of the device in host memory; what it was is released.
lf_tensor brought_over(const Device& device, lf_tensor tensor) {
  if (tensor.device_uid == 0 || !sdk::present(tensor)) return tensor;
  std::vector<std::byte> bytes(static_cast<size_t>(sdk::element_count(tensor) * sdk::item_bytes(tensor.dtype)));
  device.download_now(bytes.data(), static_cast<const std::byte*>(tensor.data), bytes.size());
  const lf_tensor made = sdk::give(std::move(bytes), tensor.dtype, {tensor.shape, static_cast<size_t>(tensor.ndim)});
  sdk::release(tensor);
  return made;
}

// The same whatever rank and micro-batch number the samples came to, and another one in each step.
uint64_t draw_key(const RunOptions& options, const MicroBatch& batch) {
  const uint64_t of_samples =
      XXH3_64bits_withSeed(batch.sample_ids.data(), batch.sample_ids.size() * sizeof(uint64_t), options.seed);
  return XXH3_64bits_withSeed(&options.step, sizeof(options.step), of_samples);
}

}  // namespace

// A pass that failed on a device of its own may have failed because of it: a lost one answers nothing any more, and the
// plugin's codes tell a full memory and a missing operator from a fault of its own, which is a bug wherever it runs.
void Runner::fail_pass(const char* what, const std::string& component, const lf_err& err) const {
  const std::string text =
      fmt::format("model plugin {}: {} of {}: {}", model_.plugin_id(), what, component, err.message);
  if (err.code == LF_E_DATA) fail(Exit::kBadData, "{}", text);
  if (device_.is_host()) fail(Exit::kBug, "{}", text);
  try {
    device_.synchronize();
  } catch (const Error& lost) {
    fail(lost.exit(), "{} ({})", lost.what(), text);
  }
  const bool of_device = err.code == LF_E_NOMEM_DEVICE || err.code == LF_E_DEVICE_LOST || err.code == LF_E_UNSUPPORTED;
  fail(of_device ? Exit::kUnavailable : Exit::kBug, "device {}: {}", device_.id(), text);
}

RunResult Runner::run(const MicroBatch& batch, uint64_t micro_batch, const RunOptions& options) {
  const Description& description = model_.description();
  const lf_model_api* api = model_.api();
  const lf_tensor absent = sdk::with_header<lf_tensor>();
  std::vector<lf_tensor> forward(description.edges.size(), absent), backward(description.edges.size(), absent);
  struct Releaser {
    std::vector<lf_tensor>& tensors;
    ~Releaser() {
      for (lf_tensor& tensor : tensors) sdk::release(tensor);
    }
  } release_forward{forward}, release_backward{backward};

  auto lent = sdk::with_header<lf_batch>();
  lent.micro_batch = micro_batch;
  lent.columns = batch.columns.data();
  lent.n_columns = static_cast<uint32_t>(batch.columns.size());
  lent.n_samples = batch.n_samples;
  lent.loss_scale = options.backward ? options.loss_scale : 0;
  lent.totals = options.totals.empty() ? nullptr : options.totals.data();
  lent.n_totals = options.totals.size();
  lent.flags = options.outputs ? LF_BATCH_OUTPUTS : 0;
  lent.draw_key = draw_key(options, batch);

  if (copies_ && options.backward) copies_->fetch_gradients();
  RunResult result;
  std::vector<bool> ran(stages_.size(), false);
  const auto take = [](std::vector<lf_tensor>& from, const std::vector<size_t>& which) {
    std::vector<lf_tensor> taken;
    for (const size_t e : which) {
      taken.push_back(from[e]);
      taken.back().release = nullptr;  // borrowed
    }
    return taken;
  };
  const auto failed = [&](const char* what, size_t c, const lf_err& err) {
    drop(micro_batch, stages_.size());
    fail_pass(what, description.components[c].name, err);
  };

  for (size_t c = 0; c < stages_.size(); ++c) {
    const bool last = c + 1 == stages_.size();
    if (batch.atoms[c] == 0) continue;
    Stage& stage = stages_[c];
    stage.told_units = false;
    std::vector<lf_tensor> in = take(forward, stage.in);
    std::vector<lf_tensor> out(stage.out.size() + (last && options.outputs ? description.outputs.size() : 0), absent);
    auto step = sdk::with_header<lf_step_out>();
    lf_err err = sdk::make_err();
    const Device::Range range(device_, stage.forward);
    const CallWatch::Call call(begin_pass(stage.forward), stage.forward);
    const int32_t code = api->forward(stage.handle, &lent, in.data(), static_cast<uint32_t>(in.size()), out.data(),
                                      static_cast<uint32_t>(out.size()), last ? &step : nullptr, nullptr, &err);
    for (size_t k = 0; k < stage.out.size(); ++k) forward[stage.out[k]] = out[k];
    call.require_in_time();
    for (size_t k = stage.out.size(); k < out.size(); ++k) {
      auto named = sdk::with_header<lf_named_tensor>();
      named.name = sdk::str(description.outputs[k - stage.out.size()].name);
      named.tensor = brought_over(device_, out[k]);
      result.outputs.push_back(named);
    }
    if (code != LF_OK) {
      for (lf_named_tensor& output : result.outputs) sdk::release(output.tensor);
      err.code = code;
      failed("forward", c, err);
    }
    ran[c] = true;
    if (last) {
      result.loss_sum = step.loss_sum;
      result.loss_weight = step.loss_weight;
      result.aux.assign(step.aux, step.aux + description.aux_names.size());
    }
  }
  if (!options.backward) {
    drop(micro_batch, stages_.size());
    return result;
  }

  for (size_t c = stages_.size(); c-- > 0;) {
    Stage& stage = stages_[c];
    if (!ran[c]) continue;
    lf_err err = sdk::make_err();
    if (stage.no_grad) {
      api->drop(stage.handle, micro_batch, &err);
      continue;
    }
    std::vector<lf_tensor> gout = take(backward, stage.out);
    std::vector<lf_tensor> gin(stage.in.size(), absent);
    const Device::Range range(device_, stage.backward);
    const CallWatch::Call call(begin_pass(stage.backward), stage.backward);
    const int32_t code =
        api->backward(stage.handle, micro_batch, LF_BACKWARD_BOTH, gout.data(), static_cast<uint32_t>(gout.size()),
                      gin.data(), static_cast<uint32_t>(gin.size()), options.loss_scale, nullptr, &err);
    for (size_t k = 0; k < stage.in.size(); ++k) backward[stage.in[k]] = gin[k];
    call.require_in_time();
    if (code != LF_OK) {
      for (lf_named_tensor& output : result.outputs) sdk::release(output.tensor);
      err.code = code;
      failed("backward", c, err);
    }
    if (!stage.told_units)
      for (uint32_t u = 0; u < description.components[c].n_units; ++u)
        unit_done(store_.unit_index(static_cast<uint32_t>(c), u), micro_batch);
  }
  return result;
}

}  // namespace lf
