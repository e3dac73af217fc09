/* The part of the vendor's runtime that the simulator plays, declared in our own words from published uses of it.
 * Every function returns 0, or the negative of an error code (errors.h of plugins/kunlun lists them). */
#ifndef LF_SIM_XPU_RUNTIME_H
#define LF_SIM_XPU_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define LF_SIM_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef void* XPUStream;
typedef void* XPUEvent;

enum { XPU_MEM_MAIN = 0, XPU_MEM_L3 = 1, XPU_MEM_MMAPPABLE = 16 };
enum { XPU_DEVICE_TO_HOST = 0, XPU_HOST_TO_DEVICE = 1, XPU_DEVICE_TO_DEVICE = 2 };
enum {
  XPUATTR_PCI = 0,
  XPUATTR_DEVID = 1,
  XPUATTR_MODEL = 4,
  XPUATTR_MEM_MAIN_CAPACITY = 5,
  XPUATTR_MEM_L3_CAPACITY = 6,
  XPUATTR_NUM_CLUSTER = 7
};
enum {
  XPUERR_INVALID_DEVICE = 701,
  XPUERR_NO_DEVICE = 703,
  XPUERR_DEVICE_MEMORY = 705,
  XPUERR_HOST_MEMORY = 706,
  XPUERR_INVALID_PARAMETER = 707,
  XPUERR_ABNORMAL = 713,
  XPUERR_TIMEOUT = 715,
  XPUERR_BUSY = 716,
  XPUERR_CLOSED = 717,
  XPUERR_UNEXPECTED = 800,
  XPUERR_DMA_ABORT = 809
};

LF_SIM_EXPORT int xpu_get_driver_version(uint32_t* major, uint32_t* minor);
LF_SIM_EXPORT int xpu_get_runtime_version(uint32_t* major, uint32_t* minor);
LF_SIM_EXPORT int xpu_device_count(int* count);
LF_SIM_EXPORT int xpu_device_list(int* ids);
LF_SIM_EXPORT int xpu_set_device(int device);
LF_SIM_EXPORT int xpu_current_device(int* device); /* per thread, 0 at first */
LF_SIM_EXPORT int xpu_device_get_attr(uint64_t* value, int attribute, int device);

LF_SIM_EXPORT int xpu_malloc(void** memory, uint64_t bytes, int kind);
LF_SIM_EXPORT int xpu_free(void* memory);
LF_SIM_EXPORT int xpu_host_alloc(void** memory, uint64_t bytes, unsigned flags);
LF_SIM_EXPORT int xpu_host_free(void* memory);
LF_SIM_EXPORT int xpu_memcpy(void* to, const void* from, uint64_t bytes, int kind);
LF_SIM_EXPORT int xpu_memcpy_async(void* to, const void* from, uint64_t bytes, int kind, XPUStream stream);
LF_SIM_EXPORT int xpu_memcpy_peer(int to_device, void* to, int from_device, const void* from, uint64_t bytes);
LF_SIM_EXPORT int xpu_mmap(void** host, void* memory, size_t bytes); /* memory of kind MMAPPABLE */

LF_SIM_EXPORT int xpu_stream_create(XPUStream* stream);
LF_SIM_EXPORT int xpu_stream_destroy(XPUStream stream);
LF_SIM_EXPORT int xpu_stream_wait_event(XPUStream stream, XPUEvent event);
LF_SIM_EXPORT int xpu_wait(XPUStream stream); /* null: the default stream of the thread's device, and no other */
LF_SIM_EXPORT int xpu_event_create(XPUEvent* event);
LF_SIM_EXPORT int xpu_event_destroy(XPUEvent event);
LF_SIM_EXPORT int xpu_event_record(XPUEvent event, XPUStream stream);
LF_SIM_EXPORT int xpu_event_wait(XPUEvent event);
LF_SIM_EXPORT int xpu_event_query(XPUEvent event); /* 0: passed; -716: not yet */

/* ---- what a real runtime does not have ------------------------------------------------------------------------- */

/* Its presence is how a program knows that no card is behind this library. */
LF_SIM_EXPORT const char* lf_simulated_runtime(void);
/* For the other simulated libraries: work on a stream, the bytes behind device memory, bytes in use. */
LF_SIM_EXPORT int lf_sim_xpu_enqueue(XPUStream stream, int (*work)(void*), void* argument);
LF_SIM_EXPORT void* lf_sim_xpu_bytes(const void* memory, uint64_t bytes);
LF_SIM_EXPORT int lf_sim_xpu_physical_count(void);
LF_SIM_EXPORT uint64_t lf_sim_xpu_pci(int physical);
LF_SIM_EXPORT void lf_sim_xpu_memory(int physical, int kind, uint64_t* total, uint64_t* used);
/* Counts one call of `function` against LF_SIM_XPU_FAIL; 0, or the code to return. */
LF_SIM_EXPORT int lf_sim_xpu_fault(const char* function);

#ifdef __cplusplus
}
#endif
#endif
