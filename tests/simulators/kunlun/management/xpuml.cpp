// The simulated libxpuml.so. It sees every card of the machine, whatever the process may see, and counts them from the
// last to the first: an index that is taken for a runtime ordinal gives another card's numbers.
#include "xpu/xpuml.h"

#include <cstdio>

namespace {

constexpr int kInvalid = 2, kUninitialised = 1;
bool initialised = false;

int physical(xpumlDevice_t device) { return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1; }

bool known(xpumlDevice_t device) { return physical(device) >= 0 && physical(device) < lf_sim_xpu_physical_count(); }

}  // namespace

extern "C" {

int xpumlInit(void) {
  if (const int code = lf_sim_xpu_fault("xpumlInit"); code != 0) return code;
  initialised = true;
  return 0;
}

int xpumlShutdown(void) { return initialised = false, 0; }

int xpumlDeviceGetCount(unsigned int* count) {
  if (!initialised) return kUninitialised;
  *count = static_cast<unsigned>(lf_sim_xpu_physical_count());
  return 0;
}

int xpumlDeviceGetHandleByIndex(unsigned int index, xpumlDevice_t* device) {
  const unsigned count = static_cast<unsigned>(lf_sim_xpu_physical_count());
  if (!initialised) return kUninitialised;
  if (index >= count) return kInvalid;
  *device = reinterpret_cast<xpumlDevice_t>(static_cast<uintptr_t>(count - index));
  return 0;
}

int xpumlDeviceGetMemoryInfo(xpumlDevice_t device, xpumlMemory_t* memory) {
  if (!initialised || !known(device)) return kInvalid;
  *memory = {};
  uint64_t total = 0, used = 0;
  lf_sim_xpu_memory(physical(device), XPU_MEM_MAIN, &total, &used);
  memory->total_global = total;
  memory->used_global = used;
  memory->free_global = total - used;
  lf_sim_xpu_memory(physical(device), XPU_MEM_L3, &total, &used);
  memory->total_l3 = total;
  memory->used_l3 = used;
  memory->free_l3 = total - used;
  return 0;
}

int xpumlDeviceGetPciInfo(xpumlDevice_t device, xpumlPciInfo_t* pci) {
  if (!initialised || !known(device)) return kInvalid;
  *pci = {};
  const uint64_t packed = lf_sim_xpu_pci(physical(device));
  pci->domain = static_cast<unsigned>(packed >> 16);
  pci->bus = static_cast<unsigned>(packed >> 8) & 0xFF;
  pci->device = static_cast<unsigned>(packed >> 3) & 0x1F;
  pci->function = static_cast<unsigned>(packed) & 7;
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.%X", pci->domain, pci->bus, pci->device,
                pci->function);
  return 0;
}

}  // extern "C"
