// The same family with LibTorch inside: what crosses the border is what ../c/model.c gives and takes. Autograd stays
// here.
#include "lf/plugin_api/model.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "lf/plugin_sdk/plugin.hpp"
#include "lf/plugin_sdk/tensor.hpp"

// LF_TORCH_BUILD comes from lf_plugin_use_torch: a host with another LibTorch refuses this file before opening it.
LF_PLUGIN_MANIFEST(
    "{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"template_cpp\",\"version\":\"1\","
    "\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\",\"requires\":[\"lf.parallel/1\"]}");

using lf::sdk::Failure;
using lf::sdk::guard;

struct lf_model_s {
  const lf_host* host;
  const lf_parallel_host* parallel;
  int64_t width;
};

namespace {

constexpr int64_t kBytes = 256;
enum Param : uint32_t { kEmbed, kHead, kBias, kParams };
constexpr const char* kNames[kParams] = {"embed.weight", "head.weight", "head.bias"};
constexpr uint32_t kUnitOf[kParams] = {0, 1, 1};
constexpr uint32_t kUnits = 2;

// A view of the host's memory; the host keeps it alive.
at::Tensor view_of(const lf_tensor& tensor, at::ScalarType type) {
  return at::from_blob(tensor.data, at::IntArrayRef(tensor.shape, static_cast<size_t>(tensor.ndim)),
                       at::TensorOptions(type));
}

class Stage {
 public:
  Stage(lf_model model, bool no_grad) : model_(model), no_grad_(no_grad) {}

  void bind(uint32_t unit, const lf_tensor* values, const lf_tensor* grads, uint32_t n) {
    uint32_t given = 0;
    for (uint32_t p = 0; p < kParams; ++p) {
      if (kUnitOf[p] != unit) continue;
      if (given == n) throw Failure(LF_E_INVALID, "bind: too few parameters");
      values_[p] = view_of(values[given], at::kFloat);
      grads_[p] = grads[given].dtype == 0 ? at::Tensor() : view_of(grads[given], at::kFloat);
      ++given;
    }
    if (given != n || given == 0) throw Failure(LF_E_INVALID, "bind: expected the parameters of one unit");
  }

  void forward(const lf_batch& batch, lf_step_out& out) {
    c10::AutoGradMode mode(!no_grad_);
    Open open;
    for (const uint32_t p : {kEmbed, kHead, kBias}) {  // leaves of this micro-batch's own graph
      open.leaf[p] = values_[p].detach();
      open.leaf[p].set_requires_grad(!no_grad_ && grads_[p].defined());
    }
    const at::Tensor bytes = view_of(column(batch, "bytes"), at::kByte).to(at::kLong);
    const at::Tensor starts = view_of(column(batch, "starts"), at::kLong);
    at::Tensor target = at::full_like(bytes, -100);
    if (bytes.numel() > 1) target.slice(0, 0, -1).copy_(bytes.slice(0, 1));
    target.index_fill_(0, starts.slice(0, 1) - 1, -100);  // a sample's last byte has nothing to guess
    tell(0, LF_UNIT_NEED_FORWARD, batch.micro_batch);
    const at::Tensor x = at::embedding(open.leaf[kEmbed], bytes);
    tell(0, LF_UNIT_DONE_FORWARD, batch.micro_batch);
    tell(1, LF_UNIT_NEED_FORWARD, batch.micro_batch);
    const at::Tensor logits = at::linear(x, open.leaf[kHead], open.leaf[kBias]);
    open.loss = at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum);
    tell(1, LF_UNIT_DONE_FORWARD, batch.micro_batch);
    out.loss_sum = open.loss.item<double>();
    out.loss_weight = target.ge(0).sum().item<double>();
    open_[batch.micro_batch] = std::move(open);
  }

  void backward(uint64_t micro_batch, double loss_scale) {
    const auto found = open_.find(micro_batch);
    if (found == open_.end()) throw Failure(LF_E_INVALID, "backward: expected a micro-batch that forward has seen");
    Open open = std::move(found->second);
    open_.erase(found);
    tell(1, LF_UNIT_NEED_BACKWARD, micro_batch);
    tell(0, LF_UNIT_NEED_BACKWARD, micro_batch);
    const at::Tensor scale = at::full({}, loss_scale, open.loss.options());
    torch::autograd::backward({open.loss}, {scale});
    for (const uint32_t p : {kEmbed, kHead, kBias})
      if (open.leaf[p].grad().defined()) grads_[p].add_(open.leaf[p].grad());
    for (const uint32_t unit : {1u, 0u}) {
      tell(unit, LF_UNIT_DONE_BACKWARD, micro_batch);
      tell(unit, LF_UNIT_DONE_WEIGHTS, micro_batch);
    }
  }

  void drop(uint64_t micro_batch) { open_.erase(micro_batch); }

 private:
  struct Open {
    at::Tensor leaf[kParams], loss;
  };

  static const lf_tensor& column(const lf_batch& batch, std::string_view name) {
    for (uint32_t i = 0; i < batch.n_columns; ++i)
      if (lf::sdk::view(batch.columns[i].name) == name) return batch.columns[i].tensor;
    throw Failure(LF_E_INVALID, "forward: expected a column " + std::string(name));
  }

  // So that the host reduces the head's gradients while the embedding's are still being made.
  void tell(uint32_t unit, int32_t what, uint64_t micro_batch) {
    lf_err err = lf::sdk::make_err();
    lf::sdk::check(
        model_->parallel->unit(model_->host, reinterpret_cast<lf_stage>(this), unit, what, micro_batch, nullptr, &err),
        err);
  }

  lf_model model_;
  bool no_grad_;
  at::Tensor values_[kParams], grads_[kParams];
  std::map<uint64_t, Open> open_;
};

Stage& stage_of(lf_stage stage) { return *reinterpret_cast<Stage*>(stage); }

int64_t width_of(std::string_view json) {
  constexpr std::string_view kKey = "\"width\":";
  const size_t at = json.find(kKey);
  const int64_t width = at == json.npos ? 0 : std::atoll(std::string(json.substr(at + kKey.size(), 12)).c_str());
  if (width < 1 || width > 4096) throw Failure(LF_E_INVALID, "config.json: expected \"width\" of 1 to 4096");
  return width;
}

int32_t create(const lf_host* host, lf_str config_json, lf_model* out, lf_err* err) {
  return guard(err, [&] {
    const auto* parallel =
        static_cast<const lf_parallel_host*>(host->get_extension(host, lf::sdk::str(LF_PARALLEL_EXTENSION)));
    if (!LF_HAS(parallel, unit)) throw Failure(LF_E_UNSUPPORTED, "the host offers no lf.parallel/1");
    *out = new lf_model_s{host, parallel, width_of(lf::sdk::view(config_json))};
  });
}

int32_t destroy(lf_model model, lf_err* err) {
  return guard(err, [&] { delete model; });
}

int32_t components(lf_model, lf_component* out, uint32_t cap, uint32_t* n, lf_err* err) {
  return guard(err, [&] {
    *n = 1;
    if (cap == 0) return;
    out->name = lf::sdk::str("language");
    out->n_units = kUnits;
    out->n_params = kParams;
    out->n_features = 2;
    out->rows = LF_ROWS_TOKEN;
    out->row_quantum = 1;
  });
}

int32_t param(lf_model model, uint32_t component, uint32_t index, lf_param* out, lf_err* err) {
  return guard(err, [&] {
    if (component != 0 || index >= kParams) throw Failure(LF_E_INVALID, "expected one of 3 parameters of component 0");
    const bool bias = index == kBias;
    out->name = lf::sdk::str(kNames[index]);
    out->unit = kUnitOf[index];
    out->flags = bias ? LF_PARAM_NO_DECAY : 0;
    out->n_parts = 1;
    out->join_axis = 0;
    out->ndim = bias ? 1 : 2;
    out->shape[0] = kBytes;
    if (!bias) out->shape[1] = model->width;
    out->init = bias ? LF_INIT_ZEROS : LF_INIT_NORMAL;
    out->init_a = 0;
    out->init_b = 0.5;
    out->tied_component = out->tied_param = -1;
  });
}

int32_t part(lf_model model, uint32_t component, uint32_t index, uint32_t k, lf_part* out, lf_err* err) {
  return guard(err, [&] {
    if (k != 0) throw Failure(LF_E_INVALID, "expected part 0");
    auto of = lf::sdk::with_header<lf_param>();
    lf_err inner = lf::sdk::make_err();
    lf::sdk::check(param(model, component, index, &of, &inner), inner);
    out->name = of.name;
    out->ndim = of.ndim;
    std::memcpy(out->shape, of.shape, sizeof out->shape);
    out->along = LF_ALONG_NONE;
    out->piece = 1;
  });
}

int32_t feature_names(lf_model, uint32_t component, lf_sink names, lf_err* err) {
  return guard(err, [&] {
    if (component != 0) throw Failure(LF_E_INVALID, "expected component 0");
    lf::sdk::put(names, std::string_view("rows\0weight\0", 12));
  });
}

int32_t cost(lf_model model, uint32_t, uint32_t unit, const double* atoms, uint64_t n, lf_cost* out, lf_err* err) {
  return guard(err, [&] {
    double rows = 0;
    for (uint64_t i = 0; i < n; ++i) rows += atoms[2 * i];
    if (unit == 0) return;  // a look-up
    out->forward_flops = out->input_flops = out->weight_flops = 2 * rows * kBytes * static_cast<double>(model->width);
    out->saved_bytes = static_cast<int64_t>(rows) * kBytes * 4;
  });
}

int64_t rows_of(const lf_sample& sample) {
  const auto size = static_cast<int64_t>(sample.json.size);
  return sample.max_rows > 0 ? std::min(sample.max_rows, size) : size;
}

int32_t features(lf_model, const lf_sample* sample, uint32_t* n_atoms, lf_sink doubles, lf_err* err) {
  return guard(err, [&] {
    const int64_t rows = rows_of(*sample);
    if (rows < 2) throw Failure(LF_E_DATA, "expected a sample of at least 2 bytes");
    n_atoms[0] = 1;
    const double numbers[] = {static_cast<double>(rows), static_cast<double>(rows - 1)};
    lf::sdk::put(doubles, numbers, sizeof numbers);
  });
}

int32_t collate(lf_model, const lf_sample* const* samples, uint32_t n, lf_named_tensor* columns, uint32_t cap,
                uint32_t* n_columns, lf_err* err) {
  return guard(err, [&] {
    if (cap < 2) throw Failure(LF_E_INVALID, "expected room for 2 columns");
    std::vector<uint8_t> bytes;
    std::vector<int64_t> starts = {0};
    for (uint32_t i = 0; i < n; ++i) {
      bytes.insert(bytes.end(), samples[i]->json.data, samples[i]->json.data + rows_of(*samples[i]));
      starts.push_back(static_cast<int64_t>(bytes.size()));
    }
    const int64_t shapes[] = {starts.back(), static_cast<int64_t>(starts.size())};
    columns[0].name = lf::sdk::str("bytes");
    columns[0].tensor = lf::sdk::give(std::move(bytes), LF_DTYPE_U8, {&shapes[0], 1});
    columns[1].name = lf::sdk::str("starts");
    columns[1].tensor = lf::sdk::give(std::move(starts), LF_DTYPE_I64, {&shapes[1], 1});
    *n_columns = 2;
  });
}

int32_t stage_new(lf_model model, const lf_stage_config* config, lf_stage* out, lf_err* err) {
  return guard(err, [&] {
    if (config->component != 0 || config->first_unit != 0 || config->n_units != kUnits)
      throw Failure(LF_E_UNSUPPORTED, "expected a stage of all units; LF_MODEL_STAGES is not offered");
    // A view of another device's memory needs that device's name for LibTorch: see LF_MODEL_DEVICE_MEMORY.
    if (config->device_uid != 0)
      throw Failure(LF_E_UNSUPPORTED, "computes in host memory; LF_MODEL_DEVICE_MEMORY is not offered");
    if (config->dtype != LF_DTYPE_F32) throw Failure(LF_E_UNSUPPORTED, "computes in f32; set precision.compute");
    *out = reinterpret_cast<lf_stage>(new Stage(model, (config->flags & LF_STAGE_NO_GRAD) != 0));
  });
}

int32_t stage_free(lf_stage stage, lf_err* err) {
  return guard(err, [&] { delete &stage_of(stage); });
}

int32_t bind(lf_stage stage, uint32_t unit, const lf_tensor* values, const lf_tensor* grads, uint32_t n, lf_err* err) {
  return guard(err, [&] { stage_of(stage).bind(unit, values, grads, n); });
}

int32_t forward(lf_stage stage, const lf_batch* batch, const lf_tensor*, uint32_t, lf_tensor*, uint32_t,
                lf_step_out* step_out, lf_stream, lf_err* err) {
  return guard(err, [&] { stage_of(stage).forward(*batch, *step_out); });
}

int32_t backward(lf_stage stage, uint64_t micro_batch, int32_t, const lf_tensor*, uint32_t, lf_tensor*, uint32_t,
                 double loss_scale, lf_stream, lf_err* err) {
  return guard(err, [&] { stage_of(stage).backward(micro_batch, loss_scale); });
}

int32_t drop(lf_stage stage, uint64_t micro_batch, lf_err* err) {
  return guard(err, [&] { stage_of(stage).drop(micro_batch); });
}

const lf_model_api kTable = [] {
  auto api = lf::sdk::with_header<lf_model_api>();
  api.create = create;
  api.destroy = destroy;
  api.components = components;
  api.param = param;
  api.part = part;
  api.feature_names = feature_names;
  api.features = features;
  api.cost = cost;
  api.collate = collate;
  api.stage_new = stage_new;
  api.stage_free = stage_free;
  api.bind = bind;
  api.forward = forward;
  api.backward = backward;
  api.drop = drop;
  return api;
}();

const lf::sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
