/* The part of the vendor's management library that the simulator plays, in our own words. Returns 0 on success. */
#ifndef LF_SIM_XPUML_H
#define LF_SIM_XPUML_H

#include "xpu/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xpumlDevice_s* xpumlDevice_t;

typedef struct xpumlMemory_t {
  unsigned long long page_size_global, total_global, free_global, used_global;
  unsigned long long page_size_l3, total_l3, free_l3, used_l3;
  unsigned long long reserved[8];
} xpumlMemory_t;

typedef struct xpumlPciInfo_t {
  unsigned int domain, bus, device, function, device_id, subsystem_id;
  char bus_id[32];
  unsigned long long reserved[9];
} xpumlPciInfo_t;

LF_SIM_EXPORT int xpumlInit(void);
LF_SIM_EXPORT int xpumlShutdown(void);
LF_SIM_EXPORT int xpumlDeviceGetCount(unsigned int* count);
LF_SIM_EXPORT int xpumlDeviceGetHandleByIndex(unsigned int index, xpumlDevice_t* device);
LF_SIM_EXPORT int xpumlDeviceGetMemoryInfo(xpumlDevice_t device, xpumlMemory_t* memory);
LF_SIM_EXPORT int xpumlDeviceGetPciInfo(xpumlDevice_t device, xpumlPciInfo_t* pci);

#ifdef __cplusplus
}
#endif
#endif
