// The exported functions of the simulated libxpurt.so. Built twice: as for KL3, and as for KL2 (LF_SIM_KL2), whose
// older runtime has no xpu_event_query and no xpu_mmap.
#include "xpu/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "machine.h"

namespace {

using lf::sim::Card;
using lf::sim::Event;
using lf::sim::Machine;
using lf::sim::Stream;

thread_local int current_ordinal = 0;

// Codes after which the vendor's runtime answers every call with 713 until the process starts anew.
bool is_sticky(int code) {
  constexpr int kSticky[] = {713, 714, 715, 718, 801, 802, 808};
  return std::find(std::begin(kSticky), std::end(kSticky), std::abs(code)) != std::end(kSticky);
}

int note(int code, Card* card) {
  if (card != nullptr && is_sticky(code)) card->abnormal = true;
  return code;
}

Card* current_card() {
  Machine& machine = Machine::get();
  if (current_ordinal < 0 || current_ordinal >= machine.visible_count()) return nullptr;
  return &machine.card(machine.physical(current_ordinal));
}

int current_physical() { return Machine::get().physical(current_ordinal); }

// What every function does first and last: scripted faults, a card that is beyond use, the sign of codes.
template <typename Body>
int entry(const char* function, Body&& body) {
  Machine& machine = Machine::get();
  Card* card = current_card();
  int code = note(machine.faults().at(function), card);
  if (code == 0) code = card != nullptr && card->abnormal ? -XPUERR_ABNORMAL : body(machine);
  return machine.quirk("positive_codes") ? std::abs(code) : code;
}

template <typename Body>
int on_card(const char* function, Body&& body) {
  return entry(function, [&](Machine& machine) {
    Card* card = current_card();
    return card == nullptr ? -XPUERR_NO_DEVICE : body(machine, *card);
  });
}

// Where a copy reads and writes, or a code. The kind must agree with the pointers, and device memory must be live.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int code = 0;
};

Copy plan_copy(Machine& machine, void* to, const void* from, uint64_t bytes, int kind) {
  const bool to_device = machine.card_of(to) != nullptr, from_device = machine.card_of(from) != nullptr;
  const bool fits = kind == XPU_DEVICE_TO_HOST     ? from_device && !to_device
                    : kind == XPU_HOST_TO_DEVICE   ? to_device && !from_device
                    : kind == XPU_DEVICE_TO_DEVICE ? to_device && from_device
                                                   : false;
  if (!fits) return {.code = -XPUERR_INVALID_PARAMETER};
  Copy copy{static_cast<std::byte*>(to), static_cast<const std::byte*>(from)};
  if (to_device) copy.to = machine.bytes_of(to, bytes);
  if (from_device) copy.from = machine.bytes_of(from, bytes);
  if (copy.to == nullptr || copy.from == nullptr) copy.code = -XPUERR_DMA_ABORT;
  return copy;
}

int enqueue(Machine& machine, Stream& stream, std::function<int()> work) {
  Card* card = &machine.card(stream.device());
  stream.enqueue([&machine, card, work = std::move(work)] {
    if (const int code = machine.faults().at("work"); code != 0) return note(code, card);
    return note(work(), card);
  });
  return 0;
}

int finish(Machine& machine, Stream& stream) { return note(stream.wait(), &machine.card(stream.device())); }

}  // namespace

extern "C" {

int xpu_get_driver_version(uint32_t* major, uint32_t* minor) {
  return entry("xpu_get_driver_version", [&](Machine&) { return *major = 5, *minor = 0, 0; });
}

int xpu_get_runtime_version(uint32_t* major, uint32_t* minor) {
  return entry("xpu_get_runtime_version", [&](Machine&) { return *major = 5, *minor = 0, 0; });
}

int xpu_device_count(int* count) {
  return entry("xpu_device_count", [&](Machine& machine) {
    *count = machine.visible_count();
    return *count == 0 ? -XPUERR_NO_DEVICE : 0;
  });
}

int xpu_device_list(int* ids) {
  return entry("xpu_device_list", [&](Machine& machine) {
    if (machine.quirk("device_list_writes_nothing")) return 0;
    const int first = machine.quirk("first_id_64") ? 64 : 0;
    for (int i = 0; i < machine.visible_count(); ++i) ids[i] = first + i;
    return 0;
  });
}

int xpu_set_device(int device) {
  return entry("xpu_set_device", [&](Machine& machine) {
    if (device < 0 || device >= machine.visible_count()) return -XPUERR_INVALID_DEVICE;
    current_ordinal = device;
    return 0;
  });
}

int xpu_current_device(int* device) {
  return entry("xpu_current_device", [&](Machine&) { return *device = current_ordinal, 0; });
}

int xpu_device_get_attr(uint64_t* value, int attribute, int device) {
  return on_card("xpu_device_get_attr", [&](Machine& machine, Card&) {
    if (machine.quirk("attr_ignores_device")) device = current_ordinal;
    if (device < 0 || device >= machine.visible_count()) return -XPUERR_INVALID_DEVICE;
    const int physical = machine.physical(device);
    switch (attribute) {
      case XPUATTR_PCI:
        *value = lf_sim_xpu_pci(physical);
        return 0;
      case XPUATTR_DEVID:
        *value = physical;
        return 0;
      case XPUATTR_MODEL:
        *value = machine.model();
        return 0;
      case XPUATTR_MEM_MAIN_CAPACITY:
        *value = machine.card(physical).main.capacity();
        return 0;
      case XPUATTR_MEM_L3_CAPACITY:
        *value = machine.card(physical).l3.capacity();
        return 0;
      case XPUATTR_NUM_CLUSTER:
        *value = 12;
        return 0;
      default:
        return -XPUERR_INVALID_PARAMETER;
    }
  });
}

int xpu_malloc(void** memory, uint64_t bytes, int kind) {
  return on_card("xpu_malloc", [&](Machine&, Card& card) {
    if (kind != XPU_MEM_MAIN && kind != XPU_MEM_L3 && kind != XPU_MEM_MMAPPABLE) return -XPUERR_INVALID_PARAMETER;
    *memory = (kind == XPU_MEM_L3 ? card.l3 : card.main).allocate(bytes, kind == XPU_MEM_MMAPPABLE);
    return *memory == nullptr ? -XPUERR_DEVICE_MEMORY : 0;
  });
}

int xpu_free(void* memory) {
  return entry("xpu_free", [&](Machine& machine) {
    Card* card = machine.card_of(memory);
    if (card == nullptr) return -XPUERR_INVALID_PARAMETER;
    return card->main.release(memory) || card->l3.release(memory) ? 0 : -XPUERR_INVALID_PARAMETER;
  });
}

int xpu_host_alloc(void** memory, uint64_t bytes, unsigned) {
  return entry("xpu_host_alloc", [&](Machine&) {
    *memory = std::aligned_alloc(4096, (std::max<uint64_t>(bytes, 1) + 4095) / 4096 * 4096);
    return *memory == nullptr ? -XPUERR_HOST_MEMORY : 0;
  });
}

int xpu_host_free(void* memory) {
  return entry("xpu_host_free", [&](Machine&) { return std::free(memory), 0; });
}

int xpu_memcpy(void* to, const void* from, uint64_t bytes, int kind) {
  return on_card("xpu_memcpy", [&](Machine& machine, Card& card) {
    const Copy copy = plan_copy(machine, to, from, bytes, kind);
    if (copy.code != 0) return copy.code;
    enqueue(machine, card.default_stream, [=] { return std::memmove(copy.to, copy.from, bytes), 0; });
    return finish(machine, card.default_stream);
  });
}

int xpu_memcpy_async(void* to, const void* from, uint64_t bytes, int kind, XPUStream stream) {
  return on_card("xpu_memcpy_async", [&](Machine& machine, Card&) {
    Stream* queue = machine.stream(stream, current_physical());
    if (queue == nullptr) return -XPUERR_CLOSED;
    const Copy copy = plan_copy(machine, to, from, bytes, kind);
    if (copy.code != 0) return copy.code;
    return enqueue(machine, *queue, [=, &machine] {
      machine.simulate_transfer(bytes);
      std::memmove(copy.to, copy.from, bytes);
      return 0;
    });
  });
}

int xpu_memcpy_peer(int to_device, void* to, int from_device, const void* from, uint64_t bytes) {
  return on_card("xpu_memcpy_peer", [&](Machine& machine, Card&) {
    const int n = machine.visible_count();
    if (to_device < 0 || to_device >= n || from_device < 0 || from_device >= n) return -XPUERR_INVALID_DEVICE;
    if (machine.card_of(to) != &machine.card(machine.physical(to_device)) ||
        machine.card_of(from) != &machine.card(machine.physical(from_device)))
      return -XPUERR_INVALID_PARAMETER;
    std::byte* into = machine.bytes_of(to, bytes);
    const std::byte* out_of = machine.bytes_of(from, bytes);
    if (into == nullptr || out_of == nullptr) return -XPUERR_DMA_ABORT;
    std::memmove(into, out_of, bytes);
    return 0;
  });
}

int xpu_stream_create(XPUStream* stream) {
  return on_card("xpu_stream_create", [&](Machine& machine, Card&) {
    *stream = machine.add_stream(current_physical());
    return *stream == nullptr ? -XPUERR_UNEXPECTED : 0;
  });
}

int xpu_stream_destroy(XPUStream stream) {
  return entry("xpu_stream_destroy",
               [&](Machine& machine) { return machine.drop_stream(stream) ? 0 : -XPUERR_CLOSED; });
}

int xpu_stream_wait_event(XPUStream stream, XPUEvent event) {
  return on_card("xpu_stream_wait_event", [&](Machine& machine, Card&) {
    Stream* queue = machine.stream(stream, current_physical());
    Event* awaited = machine.event(event);
    if (queue == nullptr || awaited == nullptr) return -XPUERR_CLOSED;
    queue->enqueue(awaited->waiter());
    return 0;
  });
}

int xpu_wait(XPUStream stream) {
  return on_card("xpu_wait", [&](Machine& machine, Card&) {
    Stream* queue = machine.stream(stream, current_physical());
    return queue == nullptr ? -XPUERR_CLOSED : finish(machine, *queue);
  });
}

int xpu_event_create(XPUEvent* event) {
  return on_card("xpu_event_create", [&](Machine& machine, Card&) { return *event = machine.add_event(), 0; });
}

int xpu_event_destroy(XPUEvent event) {
  return entry("xpu_event_destroy", [&](Machine& machine) { return machine.drop_event(event) ? 0 : -XPUERR_CLOSED; });
}

int xpu_event_record(XPUEvent event, XPUStream stream) {
  return on_card("xpu_event_record", [&](Machine& machine, Card&) {
    Stream* queue = machine.stream(stream, current_physical());
    Event* recorded = machine.event(event);
    if (queue == nullptr || recorded == nullptr) return -XPUERR_CLOSED;
    recorded->record(*queue);
    return 0;
  });
}

int xpu_event_wait(XPUEvent event) {
  return on_card("xpu_event_wait", [&](Machine& machine, Card& card) {
    Event* awaited = machine.event(event);
    if (awaited == nullptr) return -XPUERR_CLOSED;
    awaited->wait();
    return card.abnormal ? -XPUERR_ABNORMAL : 0;
  });
}

#ifndef LF_SIM_KL2
int xpu_event_query(XPUEvent event) {
  return on_card("xpu_event_query", [&](Machine& machine, Card&) {
    Event* asked = machine.event(event);
    if (asked == nullptr) return -XPUERR_CLOSED;
    return asked->done() ? 0 : -XPUERR_BUSY;
  });
}

int xpu_mmap(void** host, void* memory, size_t bytes) {
  return on_card("xpu_mmap", [&](Machine& machine, Card&) {
    Card* card = machine.card_of(memory);
    *host = card == nullptr ? nullptr : card->main.bytes_of(memory, bytes, true);
    return *host == nullptr ? -XPUERR_INVALID_PARAMETER : 0;
  });
}
#endif

const char* lf_simulated_runtime(void) { return "lfrun's simulated XRE"; }

int lf_sim_xpu_enqueue(XPUStream stream, int (*work)(void*), void* argument) {
  return on_card("lf_sim_xpu_enqueue", [&](Machine& machine, Card&) {
    Stream* queue = machine.stream(stream, current_physical());
    return queue == nullptr ? -XPUERR_CLOSED : enqueue(machine, *queue, [=] { return work(argument); });
  });
}

void* lf_sim_xpu_bytes(const void* memory, uint64_t bytes) { return Machine::get().bytes_of(memory, bytes); }

int lf_sim_xpu_physical_count(void) { return Machine::get().physical_count(); }

// [31:16] domain, [15:8] bus, [7:3] slot, [2:0] function
uint64_t lf_sim_xpu_pci(int physical) { return (uint64_t{1} << 16) | ((0x10u + physical) << 8) | (2u << 3); }

void lf_sim_xpu_memory(int physical, int kind, uint64_t* total, uint64_t* used) {
  const Card& card = Machine::get().card(physical);
  const lf::sim::Arena& arena = kind == XPU_MEM_L3 ? card.l3 : card.main;
  *total = arena.capacity();
  *used = arena.used();
}

int lf_sim_xpu_fault(const char* function) { return Machine::get().faults().at(function); }

}  // extern "C"
