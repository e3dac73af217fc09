/* Host extension "lf.parallel/1": groups of ranks as a model sees them, and the one notification that it owes the host.
 *
 * A group is a handle; the null handle is a group of one, and every collective on it is local and free. A model never
 * asks how many ranks a job has. */
#ifndef LF_PLUGIN_API_PARALLEL_H
#define LF_PLUGIN_API_PARALLEL_H

#include "lf/plugin_api/host.h"
#include "lf/plugin_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_PARALLEL_EXTENSION "lf.parallel/1"

typedef struct lf_group_s *lf_group; /* null: a group of one */
typedef struct lf_ticket_s *lf_ticket;
typedef struct lf_stage_s *lf_stage;
typedef struct lf_stream_s *lf_stream; /* of the device plugin; null: the device's default stream */

enum {
  LF_COLLECTIVE_ALL_REDUCE = 1,
  LF_COLLECTIVE_REDUCE_SCATTER = 2,
  LF_COLLECTIVE_ALL_GATHER = 3,
  LF_COLLECTIVE_ALL_TO_ALL = 4, /* rows of axis 0, send_rows[peer] to each, recv_rows[peer] from each */
  LF_COLLECTIVE_BROADCAST = 5
};
enum { LF_REDUCE_SUM = 1, LF_REDUCE_MAX = 2, LF_REDUCE_MIN = 3 };

typedef struct lf_collective {
  lf_hdr h;
  uint64_t micro_batch;
  int32_t operation, reduction, root, reserved;
  lf_tensor in, out; /* borrowed, untouched by the model from begin until end returned and its stream work is done */
  const int64_t *send_rows, *recv_rows;
} lf_collective;

enum {
  LF_UNIT_NEED_FORWARD = 1, /* before the first use of the unit's parameters; the host may bind them again here */
  LF_UNIT_DONE_FORWARD = 2,
  LF_UNIT_NEED_BACKWARD = 3,
  LF_UNIT_DONE_BACKWARD = 4, /* input gradients are complete */
  LF_UNIT_DONE_WEIGHTS = 5   /* this micro-batch has been added to the unit's parameter gradients */
};

typedef struct lf_parallel_host {
  lf_hdr h;
  /* 1 and 0 for the null group. [any] */
  int32_t (*group_info)(const lf_host *host, lf_group group, int32_t *size, int32_t *rank);
  /* Start, and wait for, a collective. All ranks of a group make the same sequence of begins for a micro-batch,
   * whatever their row counts, zero included. After LF_E_ABORTED the tensors are never used again, the call chain
   * returns that code at once, and lf_model_api.drop follows. [step] */
  int32_t (*begin)(const lf_host *host, lf_group group, const lf_collective *what, lf_stream stream, lf_ticket *ticket,
                   lf_err *err);
  int32_t (*end)(const lf_host *host, lf_ticket ticket, lf_stream stream, lf_err *err);
  /* Told once per unit, event and micro-batch, in that order within a unit. A unit that did not run is not told: its
   * parameters then count as having no gradient. A stage that never calls it is one unit to the host. [step] */
  int32_t (*unit)(const lf_host *host, lf_stage stage, uint32_t unit, int32_t what, uint64_t micro_batch,
                  lf_stream stream, lf_err *err);
} lf_parallel_host;

#ifdef __cplusplus
}
#endif
#endif
