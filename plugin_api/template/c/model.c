/* A model family in C, without LibTorch: guesses each byte of a sample from the byte before it.
 *
 * Two units, an embedding and a head: logits = head.weight @ embed.weight[byte] + head.bias. Its own forward and
 * backward, in f32, in host memory. The samples are the bytes of the canonical JSON: put a tokenizer in their place. */
#include "lf/plugin_api/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lf/plugin_api/entry.h"

LF_PLUGIN_MANIFEST(
    "{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"template_c\",\"version\":\"1\","
    "\"interfaces\":[\"lf.model/1\"],\"torch\":\"none\"}");

enum { kBytes = 256, kUnits = 2, kParams = 3, kMostWidth = 4096 };
enum { kEmbed = 0, kHead = 1, kBias = 2 };

/* A micro-batch between forward and backward. Its columns are the host's until then. */
typedef struct open_batch {
  struct open_batch *next;
  uint64_t id;
  const uint8_t *bytes;  /* [rows] */
  const int64_t *starts; /* [samples + 1]: sample i is bytes [starts[i], starts[i + 1]) */
  uint32_t samples;
  float *guess; /* [rows, 256]: softmax of the logits */
} open_batch;

struct lf_model_s {
  const lf_host *host;
  int64_t width;
};

struct lf_stage_s {
  lf_model model;
  float *values[kParams], *grads[kParams]; /* of the host; null gradient: frozen */
  open_batch *open;
};

static int32_t fail(lf_err *err, int32_t code, const char *text) {
  err->code = code;
  snprintf(err->message, sizeof err->message, "template_c: %s", text);
  return code;
}

static lf_str text(const char *literal) {
  const lf_str s = {literal, strlen(literal)};
  return s;
}

/* ---- description: pure ---- */

/* "width": N of config.json; a real family uses a JSON library. */
static int64_t width_of(lf_str json) {
  static const char kKey[] = "\"width\":";
  for (uint64_t i = 0; i + sizeof kKey < json.size; ++i) {
    if (memcmp(json.data + i, kKey, sizeof kKey - 1) != 0) continue;
    int64_t value = 0;
    for (i += sizeof kKey - 1; i < json.size && value <= kMostWidth; ++i) {
      if (json.data[i] >= '0' && json.data[i] <= '9')
        value = 10 * value + (json.data[i] - '0');
      else if (json.data[i] != ' ')
        break;
    }
    return value;
  }
  return 0;
}

static int32_t create(const lf_host *host, lf_str config_json, lf_model *out, lf_err *err) {
  const int64_t width = width_of(config_json);
  if (width < 1 || width > kMostWidth) return fail(err, LF_E_INVALID, "config.json: expected \"width\" of 1 to 4096");
  lf_model model = malloc(sizeof *model);
  if (model == NULL) return fail(err, LF_E_NOMEM_HOST, "out of memory");
  model->host = host;
  model->width = width;
  *out = model;
  return LF_OK;
}

static int32_t destroy(lf_model model, lf_err *err) {
  (void)err;
  free(model);
  return LF_OK;
}

static int32_t components(lf_model model, lf_component *out, uint32_t cap, uint32_t *n, lf_err *err) {
  (void)model, (void)err;
  *n = 1;
  if (cap == 0) return LF_OK;
  out->name = text("language");
  out->n_units = kUnits;
  out->n_params = kParams;
  out->n_features = 2;
  out->rows = LF_ROWS_TOKEN;
  out->row_quantum = 1;
  return LF_OK;
}

static int32_t param(lf_model model, uint32_t component, uint32_t index, lf_param *out, lf_err *err) {
  static const char *const kNames[kParams] = {"embed.weight", "head.weight", "head.bias"};
  if (component != 0 || index >= kParams) return fail(err, LF_E_INVALID, "expected one of 3 parameters of component 0");
  out->name = text(kNames[index]);
  out->unit = index == kEmbed ? 0 : 1;
  out->flags = index == kBias ? LF_PARAM_NO_DECAY : 0;
  out->n_parts = 1;
  out->join_axis = 0;
  out->ndim = index == kBias ? 1 : 2;
  out->shape[0] = kBytes;
  if (index != kBias) out->shape[1] = model->width;
  out->init = index == kBias ? LF_INIT_ZEROS : LF_INIT_NORMAL;
  out->init_a = 0;
  out->init_b = 0.5;
  out->tied_component = out->tied_param = -1;
  return LF_OK;
}

/* As files hold it: one tensor per parameter, of the same name and shape. */
static int32_t part(lf_model model, uint32_t component, uint32_t index, uint32_t k, lf_part *out, lf_err *err) {
  lf_param of = {.h = {sizeof of, LF_ABI_MAJOR, LF_ABI_MINOR}};
  if (k != 0) return fail(err, LF_E_INVALID, "expected part 0");
  const int32_t code = param(model, component, index, &of, err);
  if (code != LF_OK) return code;
  out->name = of.name;
  out->ndim = of.ndim;
  memcpy(out->shape, of.shape, sizeof out->shape);
  out->along = LF_ALONG_NONE;
  out->piece = 1;
  return LF_OK;
}

static int32_t feature_names(lf_model model, uint32_t component, lf_sink names, lf_err *err) {
  (void)model;
  if (component != 0) return fail(err, LF_E_INVALID, "expected component 0");
  static const char kNames[] = "rows\0weight";
  return names.put(names.context, kNames, sizeof kNames);
}

static int32_t cost(lf_model model, uint32_t component, uint32_t unit, const double *atoms, uint64_t n, lf_cost *out,
                    lf_err *err) {
  (void)component, (void)err;
  double rows = 0;
  for (uint64_t i = 0; i < n; ++i) rows += atoms[2 * i];
  if (unit == 0) return LF_OK; /* a look-up */
  out->forward_flops = out->input_flops = out->weight_flops = 2 * rows * kBytes * (double)model->width;
  out->saved_bytes = (int64_t)rows * kBytes * (int64_t)sizeof(float);
  return LF_OK;
}

/* ---- samples ---- */

static int64_t rows_of(const lf_sample *sample) {
  const int64_t size = (int64_t)sample->json.size;
  return sample->max_rows > 0 && sample->max_rows < size ? sample->max_rows : size;
}

static int32_t features(lf_model model, const lf_sample *sample, uint32_t *n_atoms, lf_sink doubles, lf_err *err) {
  (void)model;
  const int64_t rows = rows_of(sample);
  if (rows < 2) return fail(err, LF_E_DATA, "expected a sample of at least 2 bytes");
  n_atoms[0] = 1;
  const double numbers[2] = {(double)rows, (double)(rows - 1)}; /* the last byte has nothing to guess */
  return doubles.put(doubles.context, numbers, sizeof numbers);
}

/* One column, in memory that the host lets go of by `free`. */
static void give(lf_named_tensor *column, const char *name, void *data, int32_t dtype, int64_t n) {
  column->name = text(name);
  column->tensor.data = column->tensor.owner = data;
  column->tensor.dtype = dtype;
  column->tensor.ndim = 1;
  column->tensor.shape[0] = n;
  column->tensor.strides[0] = 1;
  column->tensor.release = free;
}

static int32_t collate(lf_model model, const lf_sample *const *samples, uint32_t n, lf_named_tensor *columns,
                       uint32_t cap, uint32_t *n_columns, lf_err *err) {
  (void)model;
  if (cap < 2) return fail(err, LF_E_INVALID, "expected room for 2 columns");
  int64_t rows = 0;
  for (uint32_t i = 0; i < n; ++i) rows += rows_of(samples[i]);
  uint8_t *bytes = malloc((size_t)rows + 1);
  int64_t *starts = malloc((n + 1) * sizeof *starts);
  if (bytes == NULL || starts == NULL) {
    free(bytes), free(starts);
    return fail(err, LF_E_NOMEM_HOST, "out of memory");
  }
  starts[0] = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int64_t size = rows_of(samples[i]);
    memcpy(bytes + starts[i], samples[i]->json.data, (size_t)size);
    starts[i + 1] = starts[i] + size;
  }
  give(&columns[0], "bytes", bytes, LF_DTYPE_U8, rows);
  give(&columns[1], "starts", starts, LF_DTYPE_I64, n + 1);
  *n_columns = 2;
  return LF_OK;
}

/* ---- execution ---- */

static int32_t stage_new(lf_model model, const lf_stage_config *config, lf_stage *out, lf_err *err) {
  if (config->component != 0 || config->first_unit != 0 || config->n_units != kUnits)
    return fail(err, LF_E_UNSUPPORTED, "expected a stage of all units; LF_MODEL_STAGES is not offered");
  if (config->device_uid != 0)
    return fail(err, LF_E_UNSUPPORTED, "computes in host memory; LF_MODEL_DEVICE_MEMORY is not offered");
  if (config->dtype != LF_DTYPE_F32) return fail(err, LF_E_UNSUPPORTED, "computes in f32; set precision.compute");
  lf_stage stage = calloc(1, sizeof *stage);
  if (stage == NULL) return fail(err, LF_E_NOMEM_HOST, "out of memory");
  stage->model = model;
  *out = stage;
  return LF_OK;
}

static void close_batch(lf_stage stage, uint64_t id) {
  for (open_batch **at = &stage->open; *at != NULL; at = &(*at)->next) {
    if ((*at)->id != id) continue;
    open_batch *found = *at;
    *at = found->next;
    free(found->guess);
    free(found);
    return;
  }
}

static int32_t stage_free(lf_stage stage, lf_err *err) {
  (void)err;
  while (stage->open != NULL) close_batch(stage, stage->open->id);
  free(stage);
  return LF_OK;
}

static int32_t bind(lf_stage stage, uint32_t unit, const lf_tensor *values, const lf_tensor *grads, uint32_t n,
                    lf_err *err) {
  const uint32_t first = unit == 0 ? kEmbed : kHead;
  if (unit >= kUnits || n != (unit == 0 ? 1u : 2u)) return fail(err, LF_E_INVALID, "bind: expected 1 or 2 parameters");
  for (uint32_t i = 0; i < n; ++i) {
    stage->values[first + i] = values[i].data;
    stage->grads[first + i] = grads[i].dtype == 0 ? NULL : grads[i].data;
  }
  return LF_OK;
}

static const lf_tensor *column(const lf_batch *batch, const char *name) {
  for (uint32_t i = 0; i < batch->n_columns; ++i)
    if (batch->columns[i].name.size == strlen(name) && memcmp(batch->columns[i].name.data, name, strlen(name)) == 0)
      return &batch->columns[i].tensor;
  return NULL;
}

/* out[256] = softmax(head.weight @ x + head.bias). */
static void guess_next(lf_stage stage, const float *x, float *out) {
  const int64_t width = stage->model->width;
  float most = -INFINITY;
  for (int k = 0; k < kBytes; ++k) {
    const float *row = stage->values[kHead] + k * width;
    float sum = stage->values[kBias][k];
    for (int64_t j = 0; j < width; ++j) sum += row[j] * x[j];
    out[k] = sum;
    if (sum > most) most = sum;
  }
  float total = 0;
  for (int k = 0; k < kBytes; ++k) total += out[k] = expf(out[k] - most);
  for (int k = 0; k < kBytes; ++k) out[k] /= total;
}

static int32_t forward(lf_stage stage, const lf_batch *batch, const lf_tensor *in, uint32_t n_in, lf_tensor *out,
                       uint32_t n_out, lf_step_out *step_out, lf_stream stream, lf_err *err) {
  (void)in, (void)n_in, (void)out, (void)n_out, (void)stream;
  const lf_tensor *bytes = column(batch, "bytes"), *starts = column(batch, "starts");
  if (bytes == NULL || starts == NULL) return fail(err, LF_E_INVALID, "forward: expected columns bytes and starts");
  open_batch *open = calloc(1, sizeof *open);
  float *guess = malloc(((size_t)bytes->shape[0] + 1) * kBytes * sizeof *guess);
  if (open == NULL || guess == NULL) {
    free(open), free(guess);
    return fail(err, LF_E_NOMEM_HOST, "out of memory");
  }
  *open = (open_batch){stage->open, batch->micro_batch, bytes->data, starts->data, batch->n_samples, guess};
  stage->open = open;
  for (uint32_t s = 0; s < open->samples; ++s)
    for (int64_t t = open->starts[s]; t + 1 < open->starts[s + 1]; ++t) {
      float *row = open->guess + t * kBytes;
      guess_next(stage, stage->values[kEmbed] + open->bytes[t] * stage->model->width, row);
      step_out->loss_sum -= log(row[open->bytes[t + 1]] > 1e-30f ? row[open->bytes[t + 1]] : 1e-30f);
      step_out->loss_weight += 1; /* sums and counts: the host divides once, over all ranks */
    }
  return LF_OK;
}

/* Adds to the gradients. A stage that says nothing of its units is one unit to the host. */
static int32_t backward(lf_stage stage, uint64_t micro_batch, int32_t what, const lf_tensor *gout, uint32_t n_gout,
                        lf_tensor *gin, uint32_t n_gin, double loss_scale, lf_stream stream, lf_err *err) {
  (void)what, (void)gout, (void)n_gout, (void)gin, (void)n_gin, (void)stream;
  const int64_t width = stage->model->width;
  const open_batch *open = stage->open;
  while (open != NULL && open->id != micro_batch) open = open->next;
  if (open == NULL) return fail(err, LF_E_INVALID, "backward: expected a micro-batch that forward has seen");
  for (uint32_t s = 0; s < open->samples; ++s)
    for (int64_t t = open->starts[s]; t + 1 < open->starts[s + 1]; ++t) {
      const int64_t at = open->bytes[t] * width;
      for (int k = 0; k < kBytes; ++k) {
        const float right = k == open->bytes[t + 1] ? 1 : 0;
        const float d = (float)loss_scale * (open->guess[t * kBytes + k] - right);
        if (stage->grads[kBias] != NULL) stage->grads[kBias][k] += d;
        for (int64_t j = 0; j < width; ++j) {
          if (stage->grads[kHead] != NULL) stage->grads[kHead][k * width + j] += d * stage->values[kEmbed][at + j];
          if (stage->grads[kEmbed] != NULL) stage->grads[kEmbed][at + j] += d * stage->values[kHead][k * width + j];
        }
      }
    }
  close_batch(stage, micro_batch);
  return LF_OK;
}

static int32_t drop(lf_stage stage, uint64_t micro_batch, lf_err *err) {
  (void)err;
  close_batch(stage, micro_batch);
  return LF_OK;
}

/* ---- the plugin ---- */

static const lf_model_api kTable = {
    .h = {sizeof(lf_model_api), LF_ABI_MAJOR, LF_ABI_MINOR},
    .create = create,
    .destroy = destroy,
    .components = components,
    .param = param,
    .part = part,
    .feature_names = feature_names,
    .features = features,
    .cost = cost,
    .collate = collate,
    .stage_new = stage_new,
    .stage_free = stage_free,
    .bind = bind,
    .forward = forward,
    .backward = backward,
    .drop = drop,
};

static const void *get_interface(lf_str id) {
  const size_t n = strlen(LF_MODEL_INTERFACE);
  return id.size == n && memcmp(id.data, LF_MODEL_INTERFACE, n) == 0 ? &kTable : NULL;
}

static int32_t start(const lf_host *host, lf_err *err) {
  (void)host, (void)err;
  return LF_OK;
}

static int32_t stop(lf_err *err) {
  (void)err;
  return LF_OK;
}

static const lf_plugin kPlugin = {
    .h = {sizeof(lf_plugin), LF_ABI_MAJOR, LF_ABI_MINOR},
    .magic = LF_PLUGIN_MAGIC,
    .kind = LF_KIND_MODEL,
    .id = {"template_c", 10},
    .version = {"1", 1},
    .get_interface = get_interface,
    .start = start,
    .stop = stop,
};

const lf_plugin *lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor) {
  (void)host_abi_major, (void)host_abi_minor;
  return &kPlugin;
}
