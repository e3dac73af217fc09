#include "vendor/management.h"

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::kunlun {
namespace {

struct Memory {
  unsigned long long page_size, total, free, used, l3_page_size, l3_total, l3_free, l3_used, reserved[8];
};
struct Pci {
  unsigned domain, bus, slot, function, device_id, subsystem_id;
  char text[32];
  unsigned long long reserved[9];
};
static_assert(sizeof(Memory) == 128 && sizeof(Pci) == 128);

}  // namespace

PciAddress PciAddress::unpack(uint64_t packed) {
  const auto bits = [&](int low, int n) { return static_cast<uint32_t>(packed >> low) & ((1U << n) - 1); };
  return {bits(16, 16), bits(8, 8), bits(3, 5), bits(0, 3)};
}

std::string PciAddress::text() const { return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, slot, function); }

Management::Management(const hardware::Library& library, const std::filesystem::path& root) {
  const bool complete = library.find("xpumlInit", init_, root) && library.find("xpumlDeviceGetCount", count_, root) &&
                        library.find("xpumlDeviceGetHandleByIndex", handle_by_index_, root) &&
                        library.find("xpumlDeviceGetMemoryInfo", memory_, root) &&
                        library.find("xpumlDeviceGetPciInfo", pci_, root);
  if (!complete)
    throw sdk::Failure(LF_E_UNSUPPORTED, library.path().string() + " lacks a function of the memory query");
  if (const int code = init_(); code != 0)
    throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("{}: xpumlInit returned {}", library.path().string(), code));
}

std::optional<CardMemory> Management::memory(const PciAddress& address) const {
  unsigned count = 0;
  if (count_(&count) != 0) return std::nullopt;
  for (unsigned index = 0; index < count; ++index) {
    Handle handle = nullptr;
    Pci pci{};
    if (handle_by_index_(index, &handle) != 0 || pci_(handle, &pci) != 0) continue;
    if (PciAddress{pci.domain, pci.bus, pci.slot, pci.function} != address) continue;
    Memory memory{};
    if (memory_(handle, &memory) != 0) return std::nullopt;
    return CardMemory{memory.total, memory.free};
  }
  return std::nullopt;
}

}  // namespace lf::kunlun
