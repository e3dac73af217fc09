#include "torch/allocators.h"

#include <utility>

#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "torch/bridge.h"
#include "torch/memory_pool.h"

namespace lf::kunlun {
namespace {

thread_local bool results_on_device = false;

void release_device_memory(void* memory) { pool().release(memory); }

class OfTheDevice final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return device_memory(pool().allocate(bytes)); }
  c10::DeleterFnPtr raw_deleter() const override { return &release_device_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { bridge().on_device(to, from, bytes); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { pool().drop_kept(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // there is one stream
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const PoolStats now = pool().stats();
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto total = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[total].current = now.allocated;
    stats.allocated_bytes[total].peak = now.peak;
    stats.reserved_bytes[total].current = now.reserved;
    stats.allocation[total].allocated = now.n_alloc;
    stats.allocation[total].freed = now.n_free;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { pool().reset_peak(); }
};

c10::Allocator* plain_cpu() { return c10::GetDefaultCPUAllocator(); }

// Of either kind: LibTorch asks for one deleter of all its memory, so the address decides.
void release_cpu_memory(void* host) {
  if (void* memory = pool().device_address(host))
    pool().release(memory);
  else
    plain_cpu()->raw_deallocate(host);
}

class OfTheCpu final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!results_on_device || bytes == 0) return plain_cpu()->allocate(bytes);
    void* host = pool().host_address(pool().allocate(bytes));
    return {host, host, &release_cpu_memory, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_cpu_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

c10::DataPtr device_memory(void* memory) { return {memory, memory, &release_device_memory, bridge().device()}; }

void register_allocators() {
  // Registered for the life of the process; LibTorch never deletes an allocator.
  c10::SetAllocator(c10::DeviceType::PrivateUse1, new OfTheDevice, 1);
  if (bridge().host_visible()) c10::SetCPUAllocator(new OfTheCpu, 1);
}

ResultsOnDevice::ResultsOnDevice() : before_(std::exchange(results_on_device, true)) {}
ResultsOnDevice::~ResultsOnDevice() { results_on_device = before_; }

}  // namespace lf::kunlun
