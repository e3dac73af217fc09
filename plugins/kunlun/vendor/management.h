// The vendor's management library: how much memory a card has left. Its index is not the runtime's ordinal once a
// visibility mask is set, so cards are matched by PCI address.
#pragma once

#include <cstdint>
#include <optional>

#include "hardware/library.h"

namespace lf::kunlun {

// As the runtime packs it: [31:16] domain, [15:8] bus, [7:3] slot, [2:0] function.
struct PciAddress {
  uint32_t domain, bus, slot, function;
  static PciAddress unpack(uint64_t packed);
  std::string text() const;  // "0001:10:02.0"
  bool operator==(const PciAddress&) const = default;
};

struct CardMemory {
  uint64_t total_bytes, free_bytes;
};

class Management {
 public:
  // Throws LF_E_UNSUPPORTED when functions are missing or it does not start.
  Management(const hardware::Library& library, const std::filesystem::path& root);

  // Of the card at `address`; nothing where the library does not know it.
  std::optional<CardMemory> memory(const PciAddress& address) const;

 private:
  using Handle = void*;
  int (*init_)();
  int (*count_)(unsigned* count);
  int (*handle_by_index_)(unsigned index, Handle* handle);
  int (*memory_)(Handle handle, void* memory);
  int (*pci_)(Handle handle, void* pci);
};

}  // namespace lf::kunlun
