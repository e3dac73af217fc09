/* Interface "lf.balancer/1": numbers in, an assignment out. A policy knows nothing of what the numbers mean.
 *
 * plan is a pure function of its input and of the options given to create: the same bytes in give the same plan on
 * every rank. The host checks every plan (each atom once, places in range, limits, no empty place) and refuses a bad
 * one by the policy's name. */
#ifndef LF_PLUGIN_API_BALANCER_H
#define LF_PLUGIN_API_BALANCER_H

#include "lf/plugin_api/host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_BALANCER_INTERFACE "lf.balancer/1"

typedef struct lf_balancer_s *lf_balancer;

/* Where ranks wait for one another: once per step; at every micro-batch; between encoder and decoder; nowhere between
 * the parts (the sum of a replica's parts counts). */
enum { LF_OBJECTIVE_MAKESPAN = 1, LF_OBJECTIVE_LOCKSTEP = 2, LF_OBJECTIVE_TWO_STAGE = 3, LF_OBJECTIVE_SUM = 4 };

/* What one component has to do in this iteration. Arrays have n_atoms elements. */
typedef struct lf_balance_part {
  lf_hdr h;
  lf_str name;
  int32_t replicas, micro_batches;
  int32_t tied; /* 1: an atom must go where its sample's atom of the last part goes */
  int32_t reserved;
  int64_t row_limit, byte_limit; /* per (replica, micro-batch), never exceeded; 0: none */
  const double *speed;           /* [replicas], 1 = nominal; null: all 1 */
  uint64_t n_atoms;
  const uint64_t *sample; /* index of the sample that owns the atom */
  const double *seconds;  /* at speed 1 */
  const int64_t *rows, *bytes;
  const int32_t *arrival_replica, *arrival_micro_batch; /* where the atom would go without balancing */
} lf_balance_part;

typedef struct lf_balance_input {
  lf_hdr h;
  int64_t step;
  uint64_t seed;
  int32_t objective; /* LF_OBJECTIVE_... */
  uint32_t n_parts;
  const lf_balance_part *parts; /* in component order */
  uint64_t n_samples;
  double fixed_seconds; /* per micro-batch */
  int64_t deadline_us;  /* advice */
} lf_balance_input;

/* One per atom, in the order of the parts and their atoms. `order`: place among the atoms of its micro-batch. */
typedef struct lf_assignment {
  int32_t replica, micro_batch, order, reserved;
} lf_assignment;

typedef struct lf_balance_report {
  lf_hdr h;
  double objective_seconds, lower_bound_seconds, mean_seconds;
} lf_balance_report;

typedef struct lf_balancer_api {
  lf_hdr h;
  int32_t (*create)(const lf_host *host, lf_str options_json, lf_balancer *out, lf_err *err); /* [main] */
  int32_t (*destroy)(lf_balancer balancer, lf_err *err);                                      /* [main] */
  /* out: sum of n_atoms entries. Pure. [any] */
  int32_t (*plan)(lf_balancer balancer, const lf_balance_input *input, lf_assignment *out, lf_balance_report *report,
                  lf_err *err);
} lf_balancer_api;

#ifdef __cplusplus
}
#endif
#endif
