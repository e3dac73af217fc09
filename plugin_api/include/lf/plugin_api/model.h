/* Interface "lf.model/1": a model family.
 *
 * A family first *describes* itself (components, edges, parameters, what a sample costs): pure answers, the same in
 * every process, without device, layout or rank. Then, per rank, it *builds stages* (some units of one component), gets
 * its parameters bound as views of buffers that the host owns, and runs forward and backward by itself: no autograd
 * crosses.
 *
 *   component   a vision tower, a language decoder ...: a chain of units with typed input and output
 *   unit        a layer: the quantum in which gradients are released, activations recomputed, costs measured
 *   edge        rows that one component gives to a unit of a later one
 *   atom        the smallest thing that a component can process by itself (a sample; an image; a frame)
 *
 * Components are in topological order; the last one carries the loss. Strings and arrays that a description returns
 * live as long as the model. Required: create, destroy, components, param, part, feature_names, features, collate,
 * stage_new, stage_free, bind, forward, backward, drop; the others may be null. */
#ifndef LF_PLUGIN_API_MODEL_H
#define LF_PLUGIN_API_MODEL_H

#include "lf/plugin_api/host.h"
#include "lf/plugin_api/parallel.h"
#include "lf/plugin_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_MODEL_INTERFACE "lf.model/1"

typedef struct lf_model_s *lf_model;

/* ---- description ------------------------------------------------------------------------------------------------ */

/* Abilities of a model; the host asks for nothing that is not stated. */
enum {
  LF_MODEL_TP = 1,
  LF_MODEL_CP = 2,
  LF_MODEL_EP = 4,
  LF_MODEL_STAGES = 8,          /* a component can be cut before any unit */
  LF_MODEL_SPLIT_BACKWARD = 16, /* input gradients and weight gradients apart */
  LF_MODEL_LANES = 32,          /* two micro-batches may be open on two threads */
  LF_MODEL_REBIND = 64,         /* parameters may move at any NEED */
  LF_MODEL_RECOMPUTE = 128,
  LF_MODEL_DRY_RUN = 256,
  LF_MODEL_DEVICE_MEMORY = 512 /* values, gradients and what crosses edges may be memory of a device, not the host's */
};

/* What a row of a component or port is. */
enum { LF_ROWS_TOKEN = 1, LF_ROWS_ATOM = 2, LF_ROWS_SAMPLE = 3 };

typedef struct lf_component {
  lf_hdr h;
  lf_str name; /* as job files and freeze patterns call it: "vision", "language" */
  uint32_t n_units, n_params;
  uint32_t n_features; /* numbers per atom, see feature_names */
  int32_t rows;        /* LF_ROWS_... */
  int64_t row_quantum; /* rows of one atom come in multiples of this */
} lf_component;

/* Columns of a border: [rows, columns]; 0, of outputs only: as many as the longest sample has. dtype 0: the stage's. */
typedef struct lf_port {
  lf_hdr h;
  lf_str name;
  int32_t rows, dtype, needs_grad, reserved;
  int64_t columns;
} lf_port;

typedef struct lf_edge {
  lf_hdr h;
  lf_str name;
  uint32_t from, to, to_unit,
      from_unit; /* component indices; the unit of `to` that gets the rows, of `from` that makes them */
  lf_port port;
} lf_edge;

enum { LF_ALONG_NONE = 0, LF_ALONG_TP = 1, LF_ALONG_EP = 2 };
enum {
  LF_PART_TRANSPOSE = 1, /* the file's last two axes are swapped against the parameter's */
  LF_PART_COPY = 2,      /* with more ranks than pieces, ranks share pieces */
  LF_PART_STACK = 4      /* `stack` file tensors, named with the index in place of "{}", along a new axis 0 */
};

/* One piece of a parameter as files hold it: shape and axis are those of the parameter's side, after stacking and
 * transposing. Rank r of n along `along` holds pieces [floor(r*u/n), floor((r+1)*u/n)) of u = ceil(shape[axis]/piece);
 * with COPY and n > u it holds piece floor(r*u/n). */
typedef struct lf_part {
  lf_hdr h;
  lf_str name;
  uint32_t flags;
  int32_t ndim;
  int64_t shape[LF_MAX_DIMS];
  int32_t axis, along;
  int64_t piece, stack;
  /* What the class that opens the files (of transformers, diffusers) calls the tensor; empty: as `name`. Adapters are
   * saved by it. */
  lf_str class_name;
} lf_part;

enum {
  LF_PARAM_NO_DECAY = 1, /* norms and biases */
  LF_PARAM_BUFFER = 2,   /* saved, never trained */
  LF_PARAM_DEAD = 4,     /* never gets a gradient, so it is never updated */
  LF_PARAM_EXPERT = 8,
  LF_PARAM_LINEAR = 16, /* W [out, in] of y = x Wᵀ: `adapt` takes its parts, which are joined along axis 0. With EXPERT
                         * a stack [E, in, out] of y = x W_e, whose adapter is one for all parts: see lf_adapter */
  LF_PARAM_LOOKUP = 32, /* beside LINEAR: a table whose rows are looked up by id */
  LF_PARAM_LOGITS = 64  /* beside LINEAR: its rows are the vocabulary's logits */
};
enum {
  LF_INIT_ZEROS = 1,
  LF_INIT_ONES = 2,
  LF_INIT_NORMAL = 3 /* a = mean, b = deviation */,
  LF_INIT_UNIFORM = 4 /* in [a, b) */
};

/* The parameter is the join of its parts along join_axis. Parts are stored contiguously in row-major order. */
typedef struct lf_param {
  lf_hdr h;
  lf_str name; /* what patterns match and errors print: the published name where there is one */
  uint32_t unit, flags, n_parts;
  int32_t join_axis;
  int32_t ndim, init; /* LF_INIT_... */
  int64_t shape[LF_MAX_DIMS];
  double init_a, init_b;
  int32_t tied_component, tied_param; /* shares the values of that earlier parameter; -1, -1: its own */
  /* > 0: what is added to its gradient is not one but a count (a router's excess load), summed over the step as it is.
   * The value moves by sign_step against the sum's sign, outside of learning rate, decay, clipping and gradient norm.
   */
  double sign_step;
  /* What the class that opens the files calls it, where parts do not say (they are another's, which it is tied to);
   * empty: as `name`. */
  lf_str class_name;
} lf_param;

/* A low-rank adapter of one part of a linear parameter (arXiv:2106.09685): to the part's rows of y = x Wᵀ is added
 *   scale · drop(x) Aᵀ Bᵀ      A [rank, in], B [rows of the part, rank]
 * where drop zeroes elements of x with probability `dropout` and divides the others by 1 - dropout. W may be frozen.
 * Of a LOOKUP table, row i gets scale · B[i] A, and nothing is dropped. Of a stack of E experts (part 0 stands for all)
 * A is [E rank, in], expert after expert, and B [out, rank E] with expert e's columns at e, e + E, ...; no dropout. */
typedef struct lf_adapter {
  lf_hdr h;
  uint32_t component, param, part, reserved; /* LF_PARAM_LINEAR */
  int64_t rank;
  double scale, dropout; /* dropout in [0, 1) */
} lf_adapter;

/* ---- samples ---------------------------------------------------------------------------------------------------- */

/* One sample as the host read it. `json` is the canonical form of docs/samples.md (messages with text, images, videos);
 * `fields` are ready tensors (data sets of tensors, parity cases). Everything borrowed for the call. */
typedef struct lf_sample {
  lf_hdr h;
  uint64_t id;  /* position in the data set's own order */
  lf_str json;  /* {} where there are only fields */
  lf_str place; /* "train.jsonl:17", for messages */
  const lf_named_tensor *fields;
  uint32_t n_fields, reserved;
  int64_t max_rows; /* > 0: cut the sample to so many rows of the last component, never inside an image or a video */
  /* How often the run went through the data set before. What chance decides for a sample (noise, dropout) is a function
   * of the job's seed, `id` and this, so that neither ranks nor micro-batches nor resuming change it. */
  uint64_t epoch;
} lf_sample;

/* Compute and memory of one unit for the atoms given. */
typedef struct lf_cost {
  lf_hdr h;
  double forward_flops, input_flops, weight_flops; /* backward = input + weight */
  int64_t saved_bytes, peak_bytes, out_bytes;      /* kept for backward; on top of it while running; handed on */
} lf_cost;

/* ---- execution -------------------------------------------------------------------------------------------------- */

enum { LF_RECOMPUTE_NONE = 0, LF_RECOMPUTE_INNER = 1, LF_RECOMPUTE_WHOLE = 2 };
enum { LF_STAGE_NO_GRAD = 1 /* nothing here or before it is trained: keep no graph, backward is never called */ };

typedef struct lf_stage_config {
  lf_hdr h;
  uint32_t component, first_unit, n_units, id;
  lf_group tp, cp, ep;
  uint64_t device_uid;
  int32_t dtype; /* compute dtype */
  uint32_t flags;
  const uint8_t *recompute; /* n_units of LF_RECOMPUTE_..., null: none */
} lf_stage_config;

enum { LF_BATCH_OUTPUTS = 1 /* the last stage also returns the tensors that `outputs` names */ };

/* One micro-batch: the columns that collate made. Borrowed until `backward` or `drop` of the micro-batch returned. */
typedef struct lf_batch {
  lf_hdr h;
  uint64_t micro_batch;
  const lf_named_tensor *columns;
  uint32_t n_columns, n_samples, flags, n_own;
  const int64_t *own; /* rows of this rank, ascending; null: all */
  /* What backward will be given as loss_scale, if it will be called; 0: not known yet, or forward only. A stage that
   * ends the last component may then make the gradients of its last unit's parameters in forward already (a large
   * vocabulary's logits need not be computed twice): gradients that forward added are worthless once the micro-batch is
   * dropped. */
  double loss_scale;
  /* Sums of the last component's features, in their order, over every micro-batch and rank of the step: loss terms with
   * counts of their own can then weigh the same in every layout. Null: nothing is known beyond this micro-batch. */
  const double *totals;
  uint64_t n_totals;
  /* What draws of this micro-batch (dropout) come from, and from nothing else: the same for the same seed, step and
   * samples, whatever rank computes it, and again after a resume. */
  uint64_t draw_key;
} lf_batch;

/* Sums and counts, never means: the division by the global weight is the host's, once. */
typedef struct lf_step_out {
  lf_hdr h;
  double loss_sum, loss_weight;
  double aux[8]; /* further sums, named by aux_names */
} lf_step_out;

enum { LF_BACKWARD_INPUT = 1, LF_BACKWARD_WEIGHTS = 2, LF_BACKWARD_BOTH = 3 };

typedef struct lf_model_api {
  lf_hdr h;
  uint64_t abilities; /* LF_MODEL_... */

  /* config_json: {"config": the Hugging Face config.json, "path": model folder or null, "tokenizer": folder or null,
   * "options": [model] of the job, "data": [data] of the job, "seed": N,
   * "losses": names of loss terms that a reference states, "no_gradient": file tensors to which it gives no gradient;
   * both only where one is compared with}. Description only: no
   * weights are read, no device is touched. The tokenizer may be loaded late, at the first features call. All that is
   * wrong with config and options is told in one go, a line each; the host lends room for it: where err->size is larger
   * than sizeof(lf_err), err->message goes on to the end of what it counts. [main] */
  int32_t (*create)(const lf_host *host, lf_str config_json, lf_model *out, lf_err *err);
  int32_t (*destroy)(lf_model model, lf_err *err); /* [main] */

  /* Arrays are filled up to cap, *n is the true count. [any] */
  int32_t (*components)(lf_model model, lf_component *out, uint32_t cap, uint32_t *n, lf_err *err);
  int32_t (*edges)(lf_model model, lf_edge *out, uint32_t cap, uint32_t *n, lf_err *err);
  /* What crosses a cut before a unit (pipelines); needed with LF_MODEL_STAGES. [any] */
  int32_t (*boundary)(lf_model model, uint32_t component, uint32_t before_unit, lf_port *out, uint32_t cap, uint32_t *n,
                      lf_err *err);
  int32_t (*param)(lf_model model, uint32_t component, uint32_t index, lf_param *out, lf_err *err); /* [any] */
  int32_t (*part)(lf_model model, uint32_t component, uint32_t index, uint32_t part, lf_part *out,
                  lf_err *err); /* [any] */
  /* Names, each ended by a NUL. By convention feature 0 of a component is the rows of the atom there; feature 1 of the
   * last component is the sample's loss weight (supervised tokens). [any] */
  int32_t (*feature_names)(lf_model model, uint32_t component, lf_sink nul_separated, lf_err *err);
  /* From headers and text, without decoding pixels. n_atoms[component] is written for every component; then, by
   * component and atom, n_features doubles each go into `doubles`. The same sample gives the same numbers as collate
   * will produce rows. LF_E_DATA: the sample is bad. [any] */
  int32_t (*features)(lf_model model, const lf_sample *sample, uint32_t *n_atoms, lf_sink doubles, lf_err *err);
  /* Cost of one unit for n atoms of width n_features each. [any] */
  int32_t (*cost)(lf_model model, uint32_t component, uint32_t unit, const double *atoms, uint64_t n, lf_cost *out,
                  lf_err *err);
  /* Decode, encode and pack samples into the columns of one micro-batch, in the order given. Names live as long as the
   * model; tensors are released by the host. The column "source_row" (i64 [rows of the last component]) tells, for
   * samples made of fields, which flat row of their input each row came from. [io] */
  int32_t (*collate)(lf_model model, const lf_sample *const *samples, uint32_t n, lf_named_tensor *columns,
                     uint32_t cap, uint32_t *n_columns, lf_err *err);
  /* Tensors that the last stage returns with LF_BATCH_OUTPUTS, one row per row of the last component. [any] */
  int32_t (*outputs)(lf_model model, lf_port *out, uint32_t cap, uint32_t *n, lf_err *err);
  int32_t (*aux_names)(lf_model model, lf_sink nul_separated, lf_err *err); /* of lf_step_out.aux, at most 8. [any] */

  /* A stage: some units of one component on this rank. Its tensors are of config->device_uid, but for the columns of
   * batches, which are host memory. A device that the plugin does not know is answered with LF_E_UNSUPPORTED; without
   * LF_MODEL_DEVICE_MEMORY that is any other than 0, and the host asks for none. [main] */
  int32_t (*stage_new)(lf_model model, const lf_stage_config *config, lf_stage *out, lf_err *err);
  int32_t (*stage_free)(lf_stage stage, lf_err *err); /* [main] */
  /* Units of a stage are counted from its first_unit, here and in lf_parallel_host.unit.
   * The unit's parameters in table order: local shapes by lf_slice, values in the compute dtype. Gradients have dtype 0
   * where a parameter is frozen, else the value's dtype or f32; they are *added to*, and are zero at the first
   * micro-batch of a step. Called for each unit before its first use, and again at any NEED with LF_MODEL_REBIND.
   * [step] */
  int32_t (*bind)(lf_stage stage, uint32_t unit, const lf_tensor *values, const lf_tensor *grads, uint32_t n,
                  lf_err *err);
  /* in: ports of the first unit's boundary, then edges entering the stage, in table order, borrowed until `backward` or
   * `drop` returned; an edge whose producer had no atoms is absent (dtype 0). out: ports at the end of the stage, then
   * edges leaving it, then `outputs` if asked; the plugin's, released by the host. step_out is null unless the stage
   * ends the last component. [step] */
  int32_t (*forward)(lf_stage stage, const lf_batch *batch, const lf_tensor *in, uint32_t n_in, lf_tensor *out,
                     uint32_t n_out, lf_step_out *step_out, lf_stream stream, lf_err *err);
  /* gout: gradients of `out` in its order, absent where nothing flowed back (gradients of `outputs` are never given).
   * gin: gradients of `in`; the plugin's, released by the host. The stage that ends the last component starts from
   * loss_scale times its loss sum. Frees the micro-batch unless `what` is INPUT. [step] */
  int32_t (*backward)(lf_stage stage, uint64_t micro_batch, int32_t what, const lf_tensor *gout, uint32_t n_gout,
                      lf_tensor *gin, uint32_t n_gin, double loss_scale, lf_stream stream, lf_err *err);
  /* Forget a micro-batch without backward (evaluation, aborted steps). [step] */
  int32_t (*drop)(lf_stage stage, uint64_t micro_batch, lf_err *err);
  /* Memory and compute of each unit of a stage that was never built. [any] */
  int32_t (*dry_run)(lf_model model, const lf_stage_config *config, const double *atoms, uint64_t n, lf_cost *per_unit,
                     lf_err *err);
  /* State beside parameters (a router's running load); part of checkpoints. [main] */
  int32_t (*state_save)(lf_model model, lf_sink bytes, lf_err *err);
  int32_t (*state_load)(lf_model model, const void *bytes, uint64_t size, lf_err *err);
  /* Gives parts of linear parameters adapters; before any stage is made, at most once. A part has one at most. From
   * then on `bind` gets, after a unit's own parameters, A and B of each adapter of that unit in the order given here.
   * Null: the family cannot. [main] */
  int32_t (*adapt)(lf_model model, const lf_adapter *adapters, uint32_t n, lf_err *err);
} lf_model_api;

#ifdef __cplusplus
}
#endif
#endif
