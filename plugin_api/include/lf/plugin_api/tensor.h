/* The one way a tensor crosses the border: a plain view, and who must let go of it. See docs/adr/0003. */
#ifndef LF_PLUGIN_API_TENSOR_H
#define LF_PLUGIN_API_TENSOR_H

#include "lf/plugin_api/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_MAX_DIMS 8

/* `data` points at element [0, ..., 0]; `strides` are in elements. `device_uid` is lf_device_info.uid of the memory's
 * device, 0 for host memory.
 *
 * Ownership: with `release` null the view is borrowed, for as long as the function that received it says. Otherwise the
 * receiver calls release(owner) exactly once when it is done, from any thread; release must not throw and must not call
 * the host. A tensor with `data` null is absent (where a comment allows that); a tensor with zero elements has a shape
 * and may have `data` null too: `dtype` 0 is what marks an absent one. */
typedef struct lf_tensor {
  lf_hdr h;
  void *data;
  int32_t dtype; /* LF_DTYPE_..., 0: absent */
  int32_t ndim;
  int64_t shape[LF_MAX_DIMS];
  int64_t strides[LF_MAX_DIMS];
  uint64_t device_uid;
  void *owner;
  void (*release)(void *owner);
} lf_tensor;

/* A tensor with a name, as in a batch or a file. `name` is borrowed as long as the tensor. */
typedef struct lf_named_tensor {
  lf_hdr h;
  lf_str name;
  lf_tensor tensor;
} lf_named_tensor;

#ifdef __cplusplus
}
#endif
#endif
