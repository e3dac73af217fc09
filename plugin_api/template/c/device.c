/* A device plugin in C: the host's own memory as a card. Every required function of "lf.device/1", and no more:
 * streams and events are abilities that it does not state. LibTorch knows the memory as its built-in "cpu". */
#include "lf/plugin_api/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lf/plugin_api/entry.h"

LF_PLUGIN_MANIFEST(
    "{\"abi\":\"0.1\",\"kind\":\"device\",\"id\":\"template_c\",\"version\":\"1\","
    "\"interfaces\":[\"lf.device/1\"],\"torch\":\"none\"}");

enum { kAlignment = 64 };
static const uint64_t kMemoryBytes = (uint64_t)1 << 36; /* a vendor's runtime would tell */

/* Stands before each block that was given out. */
typedef struct block {
  struct block *next;
  uint64_t bytes;
  char padding[kAlignment - 16];
} block;

struct lf_device_s {
  pthread_mutex_t mutex; /* memory is allocated from any thread */
  block *blocks;
  uint64_t allocated, peak, n_alloc, n_out_of_memory;
};

static int32_t fail(lf_err *err, int32_t code, const char *text) {
  err->code = code;
  snprintf(err->message, sizeof err->message, "template_c: %s", text);
  return code;
}

/* The caller may know less of the struct than we do: no more than its size is written, which stays as it is. */
static void give(lf_hdr *out, const lf_hdr *made) {
  const lf_hdr head = *out;
  memcpy(out, made, head.size < made->size ? head.size : made->size);
  *out = head;
}

static int32_t probe(uint32_t *count, lf_sink reason, lf_err *err) {
  (void)reason, (void)err; /* a vendor's plugin says here why it found none */
  *count = 1;
  return LF_OK;
}

static int32_t open_device(uint32_t ordinal, lf_device *out, lf_err *err) {
  if (ordinal != 0) return fail(err, LF_E_NO_DEVICE, "expected ordinal 0: there is one device");
  lf_device device = calloc(1, sizeof *device);
  if (device == NULL) return fail(err, LF_E_NOMEM_HOST, "out of memory");
  pthread_mutex_init(&device->mutex, NULL);
  *out = device;
  return LF_OK;
}

static int32_t close_device(lf_device device, lf_err *err) {
  if (device == NULL) return fail(err, LF_E_INVALID, "expected a device, got null");
  if (device->blocks != NULL) return fail(err, LF_E_INVALID, "expected all memory freed before close");
  pthread_mutex_destroy(&device->mutex);
  free(device);
  return LF_OK;
}

static int32_t info(lf_device device, lf_device_info *out, lf_err *err) {
  if (device == NULL) return fail(err, LF_E_INVALID, "expected a device, got null");
  lf_device_info made = {.h = {sizeof made, LF_ABI_MAJOR, LF_ABI_MINOR}};
  made.uid = 0; /* host memory; a card's is any other number */
  strcpy(made.name, "host memory");
  made.memory_bytes = kMemoryBytes;
  made.torch_mode = LF_TORCH_BUILT_IN;
  strcpy(made.torch_device, "cpu");
  made.max_streams = 1;
  made.alignment = kAlignment;
  give(&out->h, &made.h);
  return LF_OK;
}

static int32_t bind_thread(lf_device device, lf_err *err) {
  return device != NULL ? LF_OK : fail(err, LF_E_INVALID, "expected a device, got null");
}

static int32_t synchronize(lf_device device, lf_err *err) {
  return device != NULL ? LF_OK : fail(err, LF_E_INVALID, "expected a device, got null");
}

static int32_t memory_alloc(lf_device device, uint64_t bytes, int32_t kind, void **out, lf_err *err) {
  if (device == NULL) return fail(err, LF_E_INVALID, "expected a device, got null");
  if (kind != LF_MEMORY_MAIN && kind != LF_MEMORY_PINNED_HOST)
    return fail(err, LF_E_UNSUPPORTED, "expected main or pinned host memory");
  *out = NULL;
  if (bytes == 0) return LF_OK;
  block *made = NULL;
  if (bytes <= kMemoryBytes) made = aligned_alloc(kAlignment, (sizeof *made + bytes + kAlignment - 1) & ~63ull);
  pthread_mutex_lock(&device->mutex);
  if (made == NULL) {
    ++device->n_out_of_memory;
  } else {
    made->next = device->blocks;
    made->bytes = bytes;
    device->blocks = made;
    ++device->n_alloc;
    device->allocated += bytes;
    if (device->allocated > device->peak) device->peak = device->allocated;
    *out = made + 1;
  }
  pthread_mutex_unlock(&device->mutex);
  return made != NULL ? LF_OK : fail(err, LF_E_NOMEM_DEVICE, "no such memory left; shrink the micro-batch");
}

static int32_t memory_free(lf_device device, void *memory, lf_err *err) {
  if (device == NULL) return fail(err, LF_E_INVALID, "expected a device, got null");
  if (memory == NULL) return LF_OK;
  block *found = NULL;
  pthread_mutex_lock(&device->mutex);
  for (block **at = &device->blocks; *at != NULL; at = &(*at)->next)
    if ((void *)(*at + 1) == memory) {
      found = *at;
      *at = found->next;
      device->allocated -= found->bytes;
      break;
    }
  pthread_mutex_unlock(&device->mutex);
  if (found == NULL) return fail(err, LF_E_INVALID, "expected memory in use here; was it freed before?");
  free(found);
  return LF_OK;
}

static int32_t memory_stats(lf_device device, lf_memory_stats *out, lf_err *err) {
  if (device == NULL) return fail(err, LF_E_INVALID, "expected a device, got null");
  lf_memory_stats made = {.h = {sizeof made, LF_ABI_MAJOR, LF_ABI_MINOR}};
  pthread_mutex_lock(&device->mutex);
  made.total_bytes = kMemoryBytes;
  made.free_bytes = kMemoryBytes - device->allocated;
  made.allocated_bytes = device->allocated;
  made.peak_bytes = device->peak;
  made.n_alloc = device->n_alloc;
  made.n_out_of_memory = device->n_out_of_memory;
  pthread_mutex_unlock(&device->mutex);
  give(&out->h, &made.h);
  return LF_OK;
}

static int32_t copy(lf_device to_device, void *to, lf_device from_device, const void *from, uint64_t bytes,
                    lf_stream stream, lf_err *err) {
  (void)to_device, (void)from_device, (void)stream; /* null: host memory, which this device's is too */
  if (bytes > 0 && (to == NULL || from == NULL)) return fail(err, LF_E_INVALID, "expected memory, got null");
  if (bytes > 0) memmove(to, from, bytes);
  return LF_OK;
}

static int32_t fill(lf_device device, void *memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err *err) {
  (void)stream;
  if (device == NULL || (bytes > 0 && memory == NULL)) return fail(err, LF_E_INVALID, "expected memory, got null");
  if (bytes > 0) memset(memory, value, bytes);
  return LF_OK;
}

static const lf_device_api kTable = {
    .h = {sizeof(lf_device_api), LF_ABI_MAJOR, LF_ABI_MINOR},
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .info = info,
    .bind_thread = bind_thread,
    .synchronize = synchronize,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_stats = memory_stats,
    .copy = copy,
    .fill = fill,
};

static const void *get_interface(lf_str id) {
  const size_t n = strlen(LF_DEVICE_INTERFACE);
  return id.size == n && memcmp(id.data, LF_DEVICE_INTERFACE, n) == 0 ? &kTable : NULL;
}

static int32_t start(const lf_host *host, lf_err *err) {
  (void)host, (void)err;
  return LF_OK;
}

static int32_t stop(lf_err *err) {
  (void)err;
  return LF_OK;
}

static const lf_plugin kPlugin = {
    .h = {sizeof(lf_plugin), LF_ABI_MAJOR, LF_ABI_MINOR},
    .magic = LF_PLUGIN_MAGIC,
    .kind = LF_KIND_DEVICE,
    .id = {"template_c", 10},
    .version = {"1", 1},
    .get_interface = get_interface,
    .start = start,
    .stop = stop,
};

const lf_plugin *lf_plugin_entry(uint32_t host_abi_major, uint32_t host_abi_minor) {
  (void)host_abi_major, (void)host_abi_minor;
  return &kPlugin;
}
