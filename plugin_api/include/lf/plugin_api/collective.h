/* Interface "lf.collective/1", optional beside lf.device/1: the vendor's own collectives. Without it the host moves
 * data through its own control plane, and says so. */
#ifndef LF_PLUGIN_API_COLLECTIVE_H
#define LF_PLUGIN_API_COLLECTIVE_H

#include "lf/plugin_api/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_COLLECTIVE_INTERFACE "lf.collective/1"

typedef struct lf_communicator_s *lf_communicator;

typedef struct lf_communicator_config {
  lf_hdr h;
  int32_t rank, size;
  const void *id; /* bytes from new_id on rank 0, carried to all by the host */
  uint64_t id_bytes;
  int64_t timeout_ms;
  lf_str name; /* "g7/dp": for messages */
} lf_communicator_config;

/* Buffers are device memory, counts are elements, everything is enqueued on the stream. After an error only state,
 * abort and free may follow. abort wakes every waiter of this rank, from any thread. All others: [step]. */
typedef struct lf_collective_api {
  lf_hdr h;
  int32_t (*new_id)(lf_sink id, lf_err *err); /* [main] */
  int32_t (*create)(lf_device device, const lf_communicator_config *config, lf_communicator *out,
                    lf_err *err);                                  /* [main] */
  int32_t (*free)(lf_communicator c, lf_err *err);                 /* [main] */
  int32_t (*abort)(lf_communicator c, lf_err *err);                /* [any] */
  int32_t (*state)(lf_communicator c, lf_err *asynchronous_error); /* LF_OK, or what went wrong. [any] */
  int32_t (*group_begin)(lf_communicator c, lf_err *err);
  int32_t (*group_end)(lf_communicator c, lf_err *err);
  int32_t (*all_reduce)(lf_communicator c, const void *in, void *out, uint64_t n, int32_t dtype, int32_t reduction,
                        lf_stream stream, lf_err *err);
  int32_t (*reduce_scatter)(lf_communicator c, const void *in, void *out, uint64_t n_out, int32_t dtype,
                            int32_t reduction, lf_stream stream, lf_err *err);
  int32_t (*all_gather)(lf_communicator c, const void *in, void *out, uint64_t n_in, int32_t dtype, lf_stream stream,
                        lf_err *err);
  /* Host arrays of `size` counts and offsets, in elements. */
  int32_t (*all_to_all)(lf_communicator c, const void *in, const uint64_t *n_send, const uint64_t *send_at, void *out,
                        const uint64_t *n_recv, const uint64_t *recv_at, int32_t dtype, lf_stream stream, lf_err *err);
  int32_t (*broadcast)(lf_communicator c, const void *in, void *out, uint64_t n, int32_t dtype, int32_t root,
                       lf_stream stream, lf_err *err);
  int32_t (*send)(lf_communicator c, const void *in, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
                  lf_err *err);
  int32_t (*receive)(lf_communicator c, void *out, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
                     lf_err *err);
} lf_collective_api;

#ifdef __cplusplus
}
#endif
#endif
