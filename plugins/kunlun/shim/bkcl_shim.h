/* What the shim tells the plugin about the vendor's collectives: the numbers and the size that only the vendor's header
 * knows, and its functions under C calling conventions. Enumerations cross as int32_t. */
#ifndef LF_KUNLUN_BKCL_SHIM_H
#define LF_KUNLUN_BKCL_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define LF_BKCL_SHIM_ENTRY "lf_bkcl_shim_1"

typedef struct lf_bkcl {
  uint32_t size, id_bytes;
  int32_t success, invalid_argument, runtime_error, system_error, internal_error;
  int32_t uint8, int32, int64, float16, float32, float64, bfloat16;
  int32_t add, product, min, max;

  int32_t (*get_unique_id)(void* id);
  int32_t (*init_rank)(void** context, int rank, int size, void* id); /* rank before size */
  int32_t (*destroy_context)(void* context);
  int32_t (*comm_count)(void* context, int* count);
  int32_t (*group_start)(void);
  int32_t (*group_end)(void);
  int32_t (*all_reduce)(void* context, const void* in, void* out, size_t n, int32_t type, int32_t op, void* stream);
  int32_t (*broadcast)(void* context, const void* in, void* out, size_t n, int32_t type, int root, void* stream);
  int32_t (*all_gather)(void* context, const void* in, size_t n, void* out, int32_t type, void* stream);
  int32_t (*reduce_scatter)(void* context, const void* in, void* out, size_t n, int32_t type, int32_t op, void* stream);
  int32_t (*send)(void* context, const void* in, size_t n, int peer, int32_t type, void* stream);
  int32_t (*recv)(void* context, void* out, size_t n, int peer, int32_t type, void* stream);
  /* Null where the vendor's version has none. The four arrays are device memory. */
  int32_t (*comm_abort)(void* context);
  int32_t (*all_to_all_v)(void* context, const void* in, const size_t* send_counts, const size_t* send_offsets,
                          int32_t type, void* out, const size_t* recv_counts, const size_t* recv_offsets,
                          int32_t recv_type, void* stream);
} lf_bkcl;

#endif
