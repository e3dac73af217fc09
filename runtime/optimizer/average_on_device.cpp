#include "optimizer/average_on_device.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "optimizer/device_tensors.h"

namespace lf {
namespace {

constexpr int64_t kAveragedChunk = 4 << 20;  // elements at a time: bounds what is held beside the average

class AverageOnDevice final : public AverageMemory {
 public:
  AverageOnDevice(at::Tensor master, at::Tensor average) : master_(std::move(master)), average_(std::move(average)) {
    on_the_device(average_, [&] {
      average_.copy_(master_);
      scratch_ = at::empty({std::min(kAveragedChunk, average_.numel())}, average_.options());
    });
  }

  void update(float take) override {
    on_the_device(average_, [&] {
      for (int64_t at = 0; at < average_.numel(); at += kAveragedChunk) {
        const int64_t n = std::min(kAveragedChunk, average_.numel() - at);
        const at::Tensor average = average_.narrow(0, at, n);
        at::Tensor difference = scratch_.narrow(0, 0, n);
        at::sub_out(difference, master_.narrow(0, at, n), average);
        average.add_(difference.mul_(take));
      }
    });
  }
  FloatRange range(int64_t offset, int64_t elements) const override { return range_of(average_, offset, elements); }
  uint64_t bytes() const override { return average_.nbytes(); }

 private:
  const at::Tensor master_, average_;
  at::Tensor scratch_;
};

}  // namespace

std::unique_ptr<AverageMemory> average_on_device(const Device& device, const ParameterStore& store) {
  const std::optional<at::Device> where = torch_device(device);
  if (!where || !store.state_on_device())
    fail(Exit::kBug, "weight average: the master values are not in the memory of {}", device.id());
  const int64_t n = store.trained_elements();
  return std::make_unique<AverageOnDevice>(tensor_over(store.device_master(), n, at::kFloat, *where),
                                           owning_tensor(device, n, *where));
}

}  // namespace lf
