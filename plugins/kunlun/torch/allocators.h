// Two allocators over the pool: of the device, and the CPU's for the time of an operator that ran there instead, so
// that its results are device memory already.
#pragma once

#include <c10/core/Allocator.h>

namespace lf::kunlun {

void register_allocators();                // replaces LibTorch's CPU allocator by one that forwards to it
c10::DataPtr device_memory(void* memory);  // takes a block of the pool

// While one lives, memory that this thread allocates "on the CPU" is device memory under its host address.
class ResultsOnDevice {
 public:
  ResultsOnDevice();
  ~ResultsOnDevice();
  ResultsOnDevice(const ResultsOnDevice&) = delete;
  ResultsOnDevice& operator=(const ResultsOnDevice&) = delete;

 private:
  bool before_;
};

}  // namespace lf::kunlun
