/* Interface "lf.device/1": memory, streams and events of one vendor's hardware.
 *
 * A call that touches device memory takes a stream, enqueues, and returns; a host device may do the work at once.
 * The current device of vendor runtimes is per thread: the host calls bind_thread on each of its threads, and every
 * entry of the plugin restores what it changes. Required: probe, open, close, info, bind_thread, synchronize,
 * memory_alloc, memory_free, memory_stats, copy, fill. Null elsewhere means the matching ability is not there. */
#ifndef LF_PLUGIN_API_DEVICE_H
#define LF_PLUGIN_API_DEVICE_H

#include "lf/plugin_api/host.h"
#include "lf/plugin_api/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LF_DEVICE_INTERFACE "lf.device/1"

typedef struct lf_device_s *lf_device;
typedef struct lf_event_s *lf_event;

enum {
  LF_DEVICE_EVENT_QUERY = 1,
  LF_DEVICE_EVENT_TIMING = 2,
  LF_DEVICE_ASYNC_COPY = 4,
  LF_DEVICE_ASYNC_FILL = 8,
  LF_DEVICE_PEER_COPY = 16,
  LF_DEVICE_SYNCHRONIZE = 32,
  LF_DEVICE_MEMORY_INFO = 64,
  LF_DEVICE_STREAM_PRIORITY = 128,
  LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE = 256,
  LF_DEVICE_SIMULATED = 512 /* every report says so */
};

/* How LibTorch sees the device: not at all, as one it has built in ("cpu"), by loading a further library of its own
 * ("cuda"), or as PrivateUse1 under its own name. */
enum { LF_TORCH_NONE = 0, LF_TORCH_BUILT_IN = 1, LF_TORCH_LOAD_LIBRARY = 2, LF_TORCH_PRIVATE_USE_1 = 3 };

/* Peaks are 0 where the vendor states none (then no MFU is reported). */
typedef struct lf_device_info {
  lf_hdr h;
  uint64_t uid; /* unique in the process; 0 is the host's memory */
  char name[64], arch[32], bus[24];
  uint64_t memory_bytes, fast_memory_bytes, abilities;
  int32_t torch_mode, torch_index;
  char torch_device[16]; /* "cpu", "cuda", "kunlun" */
  uint32_t max_streams, alignment;
  double peak_flops_bf16, peak_flops_fp32, memory_bytes_per_second, link_bytes_per_second;
} lf_device_info;

typedef struct lf_memory_stats {
  lf_hdr h;
  uint64_t total_bytes, free_bytes, allocated_bytes, peak_bytes, n_alloc, n_out_of_memory;
} lf_memory_stats;

enum { LF_MEMORY_MAIN = 0, LF_MEMORY_FAST = 1, LF_MEMORY_PINNED_HOST = 2 };

typedef struct lf_device_api {
  lf_hdr h;
  /* Succeeds with 0 where there is no card, and says why in `reason`; never hangs. [main] */
  int32_t (*probe)(uint32_t *count, lf_sink reason, lf_err *err);
  int32_t (*open)(uint32_t ordinal, lf_device *out, lf_err *err);      /* [main] */
  int32_t (*close)(lf_device device, lf_err *err);                     /* [main] */
  int32_t (*info)(lf_device device, lf_device_info *out, lf_err *err); /* [any] */
  int32_t (*bind_thread)(lf_device device, lf_err *err);               /* [any] */
  int32_t (*synchronize)(lf_device device, lf_err *err);               /* [any] */
  int32_t (*health)(lf_device device, lf_sink json, lf_err *err);      /* [any] */
  /* Makes the device known to LibTorch; before the first operator of the process. torch_build is the core's. [main] */
  int32_t (*torch_register)(lf_device device, lf_str torch_build, lf_str torch_library_dir, lf_err *err);

  int32_t (*memory_alloc)(lf_device device, uint64_t bytes, int32_t kind, void **out, lf_err *err); /* [any] */
  int32_t (*memory_free)(lf_device device, void *memory, lf_err *err);                              /* [any] */
  int32_t (*memory_stats)(lf_device device, lf_memory_stats *out, lf_err *err);                     /* [any] */
  /* Null device: host memory. [any] */
  int32_t (*copy)(lf_device to_device, void *to, lf_device from_device, const void *from, uint64_t bytes,
                  lf_stream stream, lf_err *err);
  int32_t (*fill)(lf_device device, void *memory, uint8_t value, uint64_t bytes, lf_stream stream,
                  lf_err *err); /* [any] */

  int32_t (*stream_new)(lf_device device, int32_t priority, lf_stream *out, lf_err *err); /* [any] */
  int32_t (*stream_free)(lf_stream stream, lf_err *err);                                  /* [any] */
  int32_t (*stream_synchronize)(lf_stream stream, lf_err *err);                           /* [any] */
  int32_t (*stream_wait)(lf_stream stream, lf_event event, lf_err *err);                  /* [any] */
  int32_t (*stream_native)(lf_stream stream, void **out, lf_err *err);                    /* [any] */
  int32_t (*event_new)(lf_device device, uint32_t flags, lf_event *out, lf_err *err);     /* [any] */
  int32_t (*event_free)(lf_event event, lf_err *err);                                     /* [any] */
  int32_t (*event_record)(lf_event event, lf_stream stream, lf_err *err);                 /* [any] */
  int32_t (*event_query)(lf_event event, int32_t *done, lf_err *err);                     /* [any] */
  int32_t (*event_synchronize)(lf_event event, lf_err *err);                              /* [any] */
  int32_t (*event_milliseconds)(lf_event from, lf_event to, double *out, lf_err *err);    /* [any] */
  /* Ranges of the vendor's profiler, nested on each thread: "step", and in it "forward of NAME", "backward of NAME" (a
   * component), "reduction", "optimizer". Both or neither. [any] */
  int32_t (*range_push)(lf_device device, lf_str name, lf_err *err);
  int32_t (*range_pop)(lf_device device, lf_err *err);
} lf_device_api;

#ifdef __cplusplus
}
#endif
#endif
