#include "family/entry.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/adapters.h"
#include "family/description.h"
#include "family/stage.h"
#include "lf/plugin_api/model.h"
#include "lf/plugin_sdk/answer.hpp"
#include "lf/plugin_sdk/tensor.hpp"

struct lf_model_s {
  lf_model_s(const lf_host* lent, std::unique_ptr<lf::family::Model> made)
      : host(lent), family(std::move(made)), description(family->spec()) {}

  const lf_host* host;
  std::unique_ptr<lf::family::Model> family;
  lf::family::Description description;
  lf::family::ModelState state;
  std::deque<std::string> file_names;  // of saved files that were handed over
};

namespace lf::family {
namespace {

// As sdk::set_error, on to the end of a struct that is larger than lf_err (lf_model_api.create).
void set_long_error(lf_err* err, const sdk::Failure& failure) {
  sdk::set_error(err, failure.code(), failure.what());
  constexpr size_t kBegin = offsetof(lf_err, message);
  if (err == nullptr || err->size <= sizeof(lf_err)) return;
  const std::string_view text = failure.what();
  const size_t n = std::min<size_t>(text.size(), err->size - kBegin - 1);
  char* const to = reinterpret_cast<char*>(err) + kBegin;
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

// What LibTorch throws because of the device gets the codes that say so; all else is a fault of the model's.
template <typename Body>
int32_t guard_pass(lf_err* err, Body&& body) noexcept {
  return sdk::guard(err, [&] {
    try {
      body();
    } catch (const c10::OutOfMemoryError& error) {
      throw sdk::Failure(LF_E_NOMEM_DEVICE, error.what_without_backtrace());
    } catch (const c10::NotImplementedError& error) {
      throw sdk::Failure(LF_E_UNSUPPORTED, error.what_without_backtrace());
    } catch (const c10::AcceleratorError& error) {
      throw sdk::Failure(LF_E_DEVICE_LOST, error.what_without_backtrace());
    }
  });
}

// Fills up to cap, counts all.
template <typename T>
void copy_out(const std::vector<T>& from, T* out, uint32_t cap, uint32_t* n) {
  std::copy_n(from.begin(), std::min<size_t>(from.size(), cap), out);
  *n = static_cast<uint32_t>(from.size());
}

int32_t destroy(lf_model model, lf_err* err) {
  return sdk::guard(err, [&] { delete model; });
}

int32_t components(lf_model model, lf_component* out, uint32_t cap, uint32_t* n, lf_err* err) {
  return sdk::guard(err, [&] { copy_out(model->description.components(), out, cap, n); });
}

int32_t edges(lf_model model, lf_edge* out, uint32_t cap, uint32_t* n, lf_err* err) {
  return sdk::guard(err, [&] { copy_out(model->description.edges(), out, cap, n); });
}

int32_t boundary(lf_model model, uint32_t component, uint32_t before_unit, lf_port* out, uint32_t cap, uint32_t* n,
                 lf_err* err) {
  return sdk::guard(err, [&] { copy_out(model->description.boundary(component, before_unit), out, cap, n); });
}

int32_t param(lf_model model, uint32_t component, uint32_t index, lf_param* out, lf_err* err) {
  return sdk::guard(err, [&] { sdk::answer(out, model->description.param(component, index)); });
}

int32_t part(lf_model model, uint32_t component, uint32_t index, uint32_t part, lf_part* out, lf_err* err) {
  return sdk::guard(err, [&] { sdk::answer(out, model->description.part(component, index, part)); });
}

int32_t feature_names(lf_model model, uint32_t component, lf_sink names, lf_err* err) {
  return sdk::guard(err, [&] { sdk::put(names, model->description.feature_names(component)); });
}

int32_t outputs(lf_model model, lf_port* out, uint32_t cap, uint32_t* n, lf_err* err) {
  return sdk::guard(err, [&] { copy_out(model->description.outputs(), out, cap, n); });
}

int32_t aux_names(lf_model model, lf_sink names, lf_err* err) {
  return sdk::guard(err, [&] { sdk::put(names, model->description.aux_names()); });
}

int32_t features(lf_model model, const lf_sample* sample, uint32_t* n_atoms, lf_sink doubles, lf_err* err) {
  return sdk::guard(err, [&] {
    const Features made = model->family->features(*sample);
    for (size_t c = 0; c < made.size(); ++c)
      n_atoms[c] = static_cast<uint32_t>(made[c].size() / model->family->spec().components[c].features.size());
    for (const std::vector<double>& numbers : made) sdk::put(doubles, numbers.data(), numbers.size() * sizeof(double));
  });
}

int32_t cost(lf_model model, uint32_t component, uint32_t unit, const double* atoms, uint64_t n, lf_cost* out,
             lf_err* err) {
  return sdk::guard(err, [&] {
    const ModelSpec& spec = model->family->spec();
    if (component >= spec.components.size() || unit >= spec.components[component].units)
      throw sdk::Failure(LF_E_INVALID, fmt::format("cost: component {} has no unit {}", component, unit));
    sdk::answer(out, model->family->cost(component, unit, {atoms, n * spec.components[component].features.size()}));
  });
}

int32_t collate(lf_model model, const lf_sample* const* samples, uint32_t n, lf_named_tensor* columns, uint32_t cap,
                uint32_t* n_columns, lf_err* err) {
  return sdk::guard(err, [&] { *n_columns = model->family->collate({samples, n}).give({columns, cap}); });
}

Stage& stage_of(lf_stage stage) { return *reinterpret_cast<Stage*>(stage); }

int32_t stage_new(lf_model model, const lf_stage_config* config, lf_stage* out, lf_err* err) {
  return guard_pass(err, [&] {
    *out = reinterpret_cast<lf_stage>(
        std::make_unique<Stage>(*model->family, model->state, model->host, *config).release());
  });
}

int32_t stage_free(lf_stage stage, lf_err* err) {
  return sdk::guard(err, [&] { delete &stage_of(stage); });
}

int32_t bind(lf_stage stage, uint32_t unit, const lf_tensor* values, const lf_tensor* grads, uint32_t n, lf_err* err) {
  return guard_pass(err, [&] { stage_of(stage).bind(unit, {values, n}, {grads, n}); });
}

int32_t forward(lf_stage stage, const lf_batch* batch, const lf_tensor* in, uint32_t n_in, lf_tensor* out,
                uint32_t n_out, lf_step_out* step_out, lf_stream stream, lf_err* err) {
  return guard_pass(err, [&] { stage_of(stage).forward(*batch, {in, n_in}, {out, n_out}, step_out, stream); });
}

int32_t backward(lf_stage stage, uint64_t micro_batch, int32_t what, const lf_tensor* gout, uint32_t n_gout,
                 lf_tensor* gin, uint32_t n_gin, double loss_scale, lf_stream stream, lf_err* err) {
  return guard_pass(err, [&] {
    stage_of(stage).backward(micro_batch, what, {gout, n_gout}, {gin, n_gin}, loss_scale, stream);
  });
}

int32_t drop(lf_stage stage, uint64_t micro_batch, lf_err* err) {
  return sdk::guard(err, [&] { stage_of(stage).drop(micro_batch); });
}

int32_t saved_files(lf_model model, lf_named_tensor* files, uint32_t cap, uint32_t* n, lf_err* err) {
  return sdk::guard(err, [&] {
    const std::vector<SavedFile> all = model->family->saved_files();
    *n = static_cast<uint32_t>(all.size());
    for (size_t i = 0; i < std::min<size_t>(cap, all.size()); ++i) {
      model->file_names.push_back(all[i].name);
      auto file = sdk::with_header<lf_named_tensor>();
      file.name = sdk::str(model->file_names.back());
      const int64_t shape[] = {static_cast<int64_t>(all[i].bytes.size())};
      file.tensor = sdk::give(std::vector<uint8_t>(all[i].bytes.begin(), all[i].bytes.end()), LF_DTYPE_U8, shape);
      sdk::answer(&files[i], file);
    }
  });
}

int32_t adapt(lf_model model, const lf_adapter* adapters, uint32_t n, lf_err* err) {
  return sdk::guard(err, [&] { model->state.adapters = AdapterTable(model->family->spec(), {adapters, n}); });
}

}  // namespace

lf_model_api common_table() noexcept {
  auto table = sdk::with_header<lf_model_api>();
  table.abilities = LF_MODEL_STAGES | LF_MODEL_RECOMPUTE | LF_MODEL_DEVICE_MEMORY;
  table.destroy = destroy;
  table.components = components;
  table.edges = edges;
  table.boundary = boundary;
  table.param = param;
  table.part = part;
  table.feature_names = feature_names;
  table.features = features;
  table.cost = cost;
  table.collate = collate;
  table.outputs = outputs;
  table.aux_names = aux_names;
  table.stage_new = stage_new;
  table.stage_free = stage_free;
  table.bind = bind;
  table.forward = forward;
  table.backward = backward;
  table.drop = drop;
  table.adapt = adapt;
  return table;
}

lf_model_files_api model_files_table() noexcept {
  auto table = sdk::with_header<lf_model_files_api>();
  table.files = saved_files;
  return table;
}

int32_t create_model(CreateModel create, const lf_host* host, lf_str request, lf_model* out, lf_err* err) noexcept {
  int32_t code = LF_OK;
  const int32_t other = sdk::guard(err, [&] {
    try {
      *out = std::make_unique<lf_model_s>(host, create(host, nlohmann::json::parse(sdk::view(request)))).release();
    } catch (const sdk::Failure& failure) {
      set_long_error(err, failure);
      code = failure.code();
    }
  });
  return code == LF_OK ? other : code;
}

}  // namespace lf::family
