// One opened device of a device plugin, and memory on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lf/plugin_api/device.h"

namespace lf {

class Device {
 public:
  // Opens ordinal `ordinal`. Throws kUnavailable with the plugin's reason where there is none.
  Device(const lf_device_api* api, const std::string& id, uint32_t ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& id() const { return id_; }
  const lf_device_info& info() const { return info_; }
  lf_memory_stats memory_stats() const;
  void synchronize() const;
  // Before the first operator of the process.
  void register_with_torch(const std::string& torch_build, const std::string& torch_library_dir) const;

  // Zeroed device memory; freed on destruction. The device outlives it.
  class Memory {
   public:
    Memory() = default;
    Memory(const Device& device, uint64_t bytes);
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    ~Memory();
    std::byte* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    void zero() const;

   private:
    const Device* device_ = nullptr;
    std::byte* data_ = nullptr;
    uint64_t bytes_ = 0;
  };

 private:
  const lf_device_api* api_;
  std::string id_;
  lf_device device_ = nullptr;
  lf_device_info info_;
};

}  // namespace lf
