// The vendor's runtime as pointers: its functions and constants, declared in our own words from published uses.
//
// Every function returns 0, or an error code whose sign is not to be trusted. The current device is per thread. There
// is no fill, no free-memory query, no event timing, no stream priority, and no call that waits for a whole device.
#pragma once

#include <cstdint>

#include "hardware/library.h"
#include "vendor/installation.h"

namespace lf::kunlun {

using XpuStream = void*;
using XpuEvent = void*;

enum MemoryKind : int { kMemoryMain = 0, kMemoryL3 = 1, kMemoryMappable = 16 };
enum CopyKind : int { kDeviceToHost = 0, kHostToDevice = 1, kDeviceToDevice = 2 };  // not CUDA's order; no host to host
enum Attribute : int { kAttributePci = 0, kAttributeModel = 4, kAttributeMainBytes = 5, kAttributeL3Bytes = 6 };

constexpr uint32_t kMaxStreams = 256;  // reported; the next one fails
constexpr int kMaxDevices = 64;        // ids from here on are the vendor's own simulator
constexpr uint64_t kFirstKl2Model = 2, kFirstKl3Model = 300;

struct Xre {
  // Throws LF_E_UNSUPPORTED, naming every function that a usable runtime must have and this one lacks.
  Xre(const hardware::Library& library, const std::filesystem::path& root);

  int (*get_driver_version)(uint32_t* major, uint32_t* minor);
  int (*get_runtime_version)(uint32_t* major, uint32_t* minor);
  int (*device_count)(int* count);
  int (*set_device)(int device);
  int (*current_device)(int* device);
  int (*device_get_attr)(uint64_t* value, int attribute, int device);  // a build reads the current device instead
  int (*malloc)(void** memory, uint64_t bytes, int kind);
  int (*free)(void* memory);
  int (*host_alloc)(void** memory, uint64_t bytes, unsigned flags);
  int (*host_free)(void* memory);
  int (*memcpy)(void* to, const void* from, uint64_t bytes, int kind);
  int (*memcpy_async)(void* to, const void* from, uint64_t bytes, int kind, XpuStream stream);
  int (*stream_create)(XpuStream* stream);
  int (*stream_destroy)(XpuStream stream);
  int (*stream_wait_event)(XpuStream stream, XpuEvent event);
  int (*wait)(XpuStream stream);  // null: the default stream of the current device, and no other
  int (*event_create)(XpuEvent* event);
  int (*event_destroy)(XpuEvent event);
  int (*event_record)(XpuEvent event, XpuStream stream);
  int (*event_wait)(XpuEvent event);
  // Null where the installation has none.
  int (*event_query)(XpuEvent event);  // KL2's runtimes lack it
  int (*memcpy_peer)(int to_device, void* to, int from_device, const void* from, uint64_t bytes);
  int (*mmap)(void** host, void* memory, uint64_t bytes);
  int (*device_list)(int* ids);  // a build returns success and writes nothing
  const char* (*simulated)();    // ours alone: says that there is no card behind
};

}  // namespace lf::kunlun
