/* Between the plugin, which knows no LibTorch, and kunlun_torch_<build>.so beside it, which is compiled with one build
 * of LibTorch and knows no vendor. Both come from this folder, so the versions need no negotiation: `size` must agree.
 */
#ifndef LF_KUNLUN_TORCH_BRIDGE_H
#define LF_KUNLUN_TORCH_BRIDGE_H

#include "lf/plugin_api/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_KUNLUN_TORCH_ENTRY "lf_kunlun_torch_entry"

enum { LF_KUNLUN_FALLBACK_ERROR = 0, LF_KUNLUN_FALLBACK_WARN = 1 };

/* The device as LibTorch will see it; functions may be called from any thread, by autograd's too. */
typedef struct lf_kunlun_device {
  uint32_t size;
  int32_t ordinal, device_count, fallback;
  int32_t host_visible; /* host_view answers for all memory of allocate */
  void* context;
  int32_t (*allocate)(void* context, uint64_t bytes, void** out, lf_err* err);
  int32_t (*release)(void* context, void* memory, lf_err* err);
  int32_t (*host_view)(void* context, const void* memory, uint64_t bytes, void** out, lf_err* err);
  int32_t (*to_device)(void* context, void* memory, const void* host, uint64_t bytes, lf_err* err); /* done on return */
  int32_t (*from_device)(void* context, void* host, const void* memory, uint64_t bytes,
                         lf_err* err);                                                          /* done on return */
  int32_t (*on_device)(void* context, void* to, const void* from, uint64_t bytes, lf_err* err); /* done on return */
  int32_t (*settle)(void* context, lf_err* err); /* waits for the default stream, if there is work on it */
  int32_t (*synchronize)(void* context, lf_err* err);
} lf_kunlun_device;

typedef struct lf_kunlun_torch {
  uint32_t size;
  const char* build; /* of LibTorch */
  /* Once per process, before its first operator. `device` is copied; its context lives as long as the process uses it.
   */
  int32_t (*register_device)(const lf_kunlun_device* device, lf_err* err);
  /* "NAME COUNT\n" for each operator that ran on the CPU, the most frequent first. */
  int32_t (*report)(lf_sink text, lf_err* err);
} lf_kunlun_torch;

#ifdef __cplusplus
}
#endif
#endif
