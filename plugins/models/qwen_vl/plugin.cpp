// The entry of the plugin: the ABI's table, in terms of the family.
#include "lf/plugin_sdk/plugin.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "lf/plugin_api/model.h"
#include "qwen_vl/description.h"
#include "qwen_vl/family.h"
#include "qwen_vl/processor/processor.h"
#include "qwen_vl/stage.h"

#define LF_QWEN_VL_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"qwen_vl\",\"version\":\"" LF_QWEN_VL_VERSION
                   "\",\"interfaces\":[\"lf.model/1\"],\"torch\":\"" LF_TORCH_BUILD "\"}");

struct lf_model_s {
  lf_model_s(const lf_host* lent, lf::qwen_vl::QwenVlConfig config, const lf::qwen_vl::Options& options,
             std::string_view create_json)
      : host(lent),
        family(lf::qwen_vl::compose(config, options)),
        description(family),
        processor(lent, config, create_json) {}

  const lf_host* host;
  lf::qwen_vl::QwenVl family;
  lf::qwen_vl::Description description;
  lf::qwen_vl::ModelState state;
  lf::qwen_vl::QwenVlProcessor processor;
};

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

constexpr int64_t kCostValueBytes = 2;  // activations in bf16, the usual compute type

// Fills up to cap, counts all.
template <typename T>
void copy_out(const std::vector<T>& from, T* out, uint32_t cap, uint32_t* n) {
  std::copy_n(from.begin(), std::min<size_t>(from.size(), cap), out);
  *n = static_cast<uint32_t>(from.size());
}

int32_t create(const lf_host* host, lf_str config_json, lf_model* out, lf_err* err) {
  return sdk::guard(err, [&] {
    const json root = json::parse(sdk::view(config_json));
    QwenVlConfig config = parse_config(root.at("config").dump());
    for (const std::string& key : config.unknown_keys) {
      const std::string text = key + " is not known to qwen_vl and has no effect";
      host->log(host, LF_LOG_WARNING, sdk::str(text));
    }
    const json model_table = root.value("options", json::object());
    json wanted = model_table.value("options", json::object());
    // A reference that states its balance loss pools it over the batch.
    for (const json& loss : root.value("losses", json::array()))
      if (loss == "aux_loss" && !wanted.contains("router_aux_loss")) wanted["router_aux_loss"] = "batch";
    const Options options = parse_options(wanted.dump(), config);
    *out = std::make_unique<lf_model_s>(host, std::move(config), options, sdk::view(config_json)).release();
  });
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
  return sdk::guard(err, [&] { *out = model->description.param(component, index); });
}

int32_t part(lf_model model, uint32_t component, uint32_t index, uint32_t part, lf_part* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = model->description.part(component, index, part); });
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
    const Features made = model->processor.features(*sample);
    n_atoms[0] = made.vision_atoms();
    n_atoms[1] = made.language_atoms();
    sdk::put(doubles, made.vision.data(), made.vision.size() * sizeof(double));
    sdk::put(doubles, made.language.data(), made.language.size() * sizeof(double));
  });
}

int32_t cost(lf_model model, uint32_t component, uint32_t unit, const double* atoms, uint64_t n, lf_cost* out,
             lf_err* err) {
  return sdk::guard(err, [&] {
    const uint64_t width = component == 0 ? std::size(kVisionFeatures) : std::size(kLanguageFeatures);
    *out = cost_of(model->family.config, component, unit, {atoms, n * width}, kCostValueBytes);
  });
}

int32_t collate(lf_model model, const lf_sample* const* samples, uint32_t n, lf_named_tensor* columns, uint32_t cap,
                uint32_t* n_columns, lf_err* err) {
  return sdk::guard(err, [&] { *n_columns = model->processor.collate({samples, n}).give({columns, cap}); });
}

Stage& stage_of(lf_stage stage) { return *reinterpret_cast<Stage*>(stage); }

int32_t stage_new(lf_model model, const lf_stage_config* config, lf_stage* out, lf_err* err) {
  return sdk::guard(err, [&] {
    *out = reinterpret_cast<lf_stage>(
        std::make_unique<Stage>(model->family, model->state, model->host, *config).release());
  });
}

int32_t stage_free(lf_stage stage, lf_err* err) {
  return sdk::guard(err, [&] { delete &stage_of(stage); });
}

int32_t bind(lf_stage stage, uint32_t unit, const lf_tensor* values, const lf_tensor* grads, uint32_t n, lf_err* err) {
  return sdk::guard(err, [&] { stage_of(stage).bind(unit, {values, n}, {grads, n}); });
}

int32_t forward(lf_stage stage, const lf_batch* batch, const lf_tensor* in, uint32_t n_in, lf_tensor* out,
                uint32_t n_out, lf_step_out* step_out, lf_stream stream, lf_err* err) {
  return sdk::guard(err, [&] { stage_of(stage).forward(*batch, {in, n_in}, {out, n_out}, step_out, stream); });
}

int32_t backward(lf_stage stage, uint64_t micro_batch, int32_t what, const lf_tensor* gout, uint32_t n_gout,
                 lf_tensor* gin, uint32_t n_gin, double loss_scale, lf_stream stream, lf_err* err) {
  return sdk::guard(err, [&] {
    stage_of(stage).backward(micro_batch, what, {gout, n_gout}, {gin, n_gin}, loss_scale, stream);
  });
}

int32_t drop(lf_stage stage, uint64_t micro_batch, lf_err* err) {
  return sdk::guard(err, [&] { stage_of(stage).drop(micro_batch); });
}

lf_model_api make_table() noexcept {
  auto table = sdk::with_header<lf_model_api>();
  table.abilities = LF_MODEL_STAGES | LF_MODEL_RECOMPUTE;
  table.create = create;
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
  return table;
}

const lf_model_api kTable = make_table();
const sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "qwen_vl", LF_QWEN_VL_VERSION);

}  // namespace
}  // namespace lf::qwen_vl

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::qwen_vl::kPlugin; }
