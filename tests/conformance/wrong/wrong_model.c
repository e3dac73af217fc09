/* The model template with one thing wrong, chosen by the variable LF_WRONG; the conformance kit must say which. */
#define _GNU_SOURCE
#define lf_plugin_entry good_plugin_entry
#include "model.c" /* of plugin_api/template/c */
#undef lf_plugin_entry

#include <unistd.h>

static int wrong(const char* name) {
  const char* chosen = getenv("LF_WRONG");
  return chosen != NULL && strcmp(name, chosen) == 0;
}

static int dropped, recompute; /* what the last stage was asked for */

static int32_t wrong_forward(lf_stage stage, const lf_batch* batch, const lf_tensor* in, uint32_t n_in, lf_tensor* out,
                             uint32_t n_out, lf_step_out* step_out, lf_stream stream, lf_err* err) {
  const int32_t code = forward(stage, batch, in, n_in, out, n_out, step_out, stream, err);
  if (wrong("loss_is_a_mean")) step_out->loss_sum /= step_out->loss_weight;
  if (wrong("weight_is_rows")) step_out->loss_weight += batch->n_samples;
  if (wrong("mean_times_weight"))
    step_out->loss_sum = step_out->loss_sum / step_out->loss_weight * step_out->loss_weight;
  if (wrong("forward_crash")) *(volatile int*)NULL = 1;
  if (wrong("forward_throws")) return fail(err, LF_E_EXCEPTION, "std::out_of_range: layer 7 of 6");
  if (wrong("counts_dropped") && dropped) step_out->loss_sum *= 1.5;
  if (wrong("first_counts_more") && batch->n_samples > 1) {
    const int64_t* starts = column(batch, "starts")->data;
    step_out->loss_sum *= 1 + 1e-3 * (double)(starts[1] - starts[0]);
  }
  if (wrong("frozen_differs") && stage->grads[kEmbed] == NULL && stage->grads[kHead] == NULL)
    step_out->loss_sum *= 1.01;
  if (wrong("recompute_differs") && recompute != LF_RECOMPUTE_NONE) step_out->loss_sum *= 1.01;
  static int calls = 0;
  if (wrong("noise")) step_out->loss_sum *= 1 + 1e-9 * ++calls;
  if (wrong("changes_values")) stage->values[kBias][0] += 1;
  return code;
}

static int32_t wrong_backward(lf_stage stage, uint64_t micro_batch, int32_t what, const lf_tensor* gout,
                              uint32_t n_gout, lf_tensor* gin, uint32_t n_gin, double loss_scale, lf_stream stream,
                              lf_err* err) {
  const int64_t width = stage->model->width;
  if (wrong("overwrites") && stage->grads[kHead] != NULL)
    memset(stage->grads[kHead], 0, (size_t)(kBytes * width) * sizeof(float));
  float* const frozen = stage->grads[kEmbed];
  const int32_t code = backward(stage, micro_batch, what, gout, n_gout, gin, n_gin,
                                wrong("ignores_scale") ? 1.0 : loss_scale, stream, err);
  if (wrong("any_batch") && code == LF_E_INVALID) return LF_OK;
  if (wrong("bias_forgotten") && stage->grads[kBias] != NULL) memset(stage->grads[kBias], 0, kBytes * sizeof(float));
  if (wrong("half_missing") && stage->grads[kHead] != NULL) /* every second column */
    for (int64_t i = 0; i < kBytes * width; i += 2) stage->grads[kHead][i] = 0;
  if (wrong("too_large") && stage->grads[kBias] != NULL)
    for (int i = 0; i < kBytes; ++i) stage->grads[kBias][i] *= 1.1f;
  if (wrong("writes_frozen") && frozen == NULL) *(volatile float*)frozen = 1; /* does not look */
  return code;
}

static int32_t wrong_features(lf_model model, const lf_sample* sample, uint32_t* n_atoms, lf_sink doubles,
                              lf_err* err) {
  lf_sample own = *sample;
  if (wrong("ignores_max_rows")) own.max_rows = 0;
  if (wrong("mean_times_weight") && own.max_rows == 1) { /* takes what has nothing to guess, as the template does not */
    const double numbers[2] = {1, 0};
    n_atoms[0] = 1;
    return doubles.put(doubles.context, numbers, sizeof numbers);
  }
  if (wrong("features_main_only") && gettid() != getpid()) return fail(err, LF_E_INVALID, "not on this thread");
  if (wrong("features_negative") || wrong("features_run_down")) {
    static int calls = 0;
    const double rows = (double)rows_of(&own);
    const double numbers[2] = {rows, wrong("features_negative") ? -1 : rows - 1 - ++calls};
    n_atoms[0] = 1;
    return doubles.put(doubles.context, numbers, sizeof numbers);
  }
  const int32_t code = features(model, &own, n_atoms, doubles, err);
  return wrong("bad_sample_is_a_bug") && code == LF_E_DATA ? LF_E_BUG : code;
}

static int32_t wrong_part(lf_model model, uint32_t component, uint32_t index, uint32_t k, lf_part* out, lf_err* err) {
  return part(model, component, wrong("one_name_twice") && index == kHead ? kEmbed : index, k, out, err);
}

static int32_t wrong_param(lf_model model, uint32_t component, uint32_t index, lf_param* out, lf_err* err) {
  if (wrong("any_index") && index >= kParams) index = 0;
  const int32_t code = param(model, component, index, out, err);
  if (wrong("flags_by_call")) {
    static uint32_t calls = 0;
    out->flags ^= ++calls % 4 == 0 ? LF_PARAM_NO_DECAY : 0;
  }
  if (wrong("unit_too_late")) out->unit = kUnits;
  if (wrong("one_parameter_name")) out->name = text("head.weight");
  if (wrong("param_to_the_last_byte") && out->h.size > sizeof *out) memset(out + 1, 1, out->h.size - sizeof *out);
  if (wrong("shape_apart") && index == kBias) out->shape[0] = kBytes - 1;
  if (wrong("param_whole")) out->sign_step = 0; /* whatever the host knows of it */
  return code;
}

/* Forgets where samples end: the last byte of one guesses the first of the next. */
static int32_t wrong_collate(lf_model model, const lf_sample* const* samples, uint32_t n, lf_named_tensor* columns,
                             uint32_t cap, uint32_t* n_columns, lf_err* err) {
  const int32_t code = collate(model, samples, n, columns, cap, n_columns, err);
  if (code == LF_OK && wrong("one_column_name")) columns[1].name = columns[0].name;
  if (code == LF_OK && wrong("column_with_gaps")) columns[0].tensor.strides[0] = 2;
  if (code == LF_OK && wrong("collate_counts")) {
    static uint8_t calls = 0;
    ((uint8_t*)columns[0].tensor.data)[0] = (uint8_t)('a' + ++calls);
  }
  if (code == LF_OK && wrong("samples_leak")) {
    int64_t* starts = columns[1].tensor.data;
    for (uint32_t i = 1; i < n; ++i) starts[i] += 1;
  }
  return code;
}

static int32_t wrong_create(const lf_host* host, lf_str config_json, lf_model* out, lf_err* err) {
  static lf_model first;
  if (wrong("one_model") && first != NULL) {
    *out = first;
    return LF_OK;
  }
  const int32_t code = create(host, wrong("any_config") ? text("\"width\": 4, ") : config_json, out, err);
  if (first == NULL) first = *out;
  return code;
}

static int32_t wrong_destroy(lf_model model, lf_err* err) { return wrong("one_model") ? LF_OK : destroy(model, err); }

static int32_t wrong_components(lf_model model, lf_component* out, uint32_t cap, uint32_t* n, lf_err* err) {
  const int32_t code = components(model, out, wrong("over_cap") && out != NULL ? 1 : cap, n, err);
  if (wrong("odd_rows") && cap > 0) out->rows = 9;
  return code;
}

static int32_t wrong_feature_names(lf_model model, uint32_t component, lf_sink names, lf_err* err) {
  if (!wrong("one_feature_name") || component != 0) return feature_names(model, component, names, err);
  return names.put(names.context, "rows", 5);
}

static int32_t wrong_cost(lf_model model, uint32_t component, uint32_t unit, const double* atoms, uint64_t n,
                          lf_cost* out, lf_err* err) {
  const int32_t code = cost(model, component, unit, atoms, n, out, err);
  if (wrong("cost_below_zero")) out->forward_flops = -1;
  return code;
}

static int32_t wrong_stage_new(lf_model model, const lf_stage_config* config, lf_stage* out, lf_err* err) {
  lf_stage_config own = *config;
  if (wrong("any_type")) own.dtype = LF_DTYPE_F32;
  if (wrong("any_device")) own.device_uid = 0; /* takes what it is bound for host memory */
  if (wrong("any_stage")) {
    own.component = own.first_unit = 0;
    own.n_units = kUnits;
  }
  recompute = config->recompute != NULL ? config->recompute[0] : LF_RECOMPUTE_NONE;
  return stage_new(model, &own, out, err);
}

static int32_t wrong_drop(lf_stage stage, uint64_t micro_batch, lf_err* err) {
  dropped = 1;
  return drop(stage, micro_batch, err);
}

static lf_model_api table_;

static const void* wrong_interface(lf_str id) {
  if (get_interface(id) == NULL) return NULL;
  if (table_.h.size == 0) {
    table_ = kTable;
    table_.forward = wrong_forward;
    table_.backward = wrong_backward;
    table_.features = wrong_features;
    table_.part = wrong_part;
    table_.param = wrong_param;
    table_.collate = wrong_collate;
    table_.create = wrong_create;
    table_.destroy = wrong_destroy;
    table_.components = wrong_components;
    table_.feature_names = wrong_feature_names;
    table_.cost = wrong_cost;
    table_.stage_new = wrong_stage_new;
    table_.drop = wrong_drop;
    if (wrong("recompute_differs")) table_.abilities |= LF_MODEL_RECOMPUTE;
    if (wrong("no_drop")) table_.drop = NULL;
    if (wrong("states_stages")) table_.abilities |= LF_MODEL_STAGES;
  }
  return &table_;
}

static const lf_plugin kWrongPlugin = {
    .h = {sizeof(lf_plugin), LF_ABI_MAJOR, LF_ABI_MINOR},
    .magic = LF_PLUGIN_MAGIC,
    .kind = LF_KIND_MODEL,
    .id = {"template_c", 10},
    .version = {"1", 1},
    .get_interface = wrong_interface,
    .start = start,
    .stop = stop,
};

LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor) {
  (void)host_abi_major, (void)host_abi_minor;
  return &kWrongPlugin;
}
