#include "optimizer/device_tensors.h"

#include <memory>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/GradMode.h>

#include "core/error.h"

namespace lf {
namespace {

at::Tensor over_host(const float* values, size_t n) {
  return at::from_blob(const_cast<float*>(values), {static_cast<int64_t>(n)}, at::kFloat);
}

[[noreturn]] void fail_of_device(const at::Tensor& tensor, const c10::Error& error, const char* next_move) {
  const std::string text = error.what_without_backtrace();
  fail(Exit::kUnavailable, "optimizer in the memory of {}: {}{}", tensor.device().str(),
       text.substr(0, text.find('\n')), next_move);
}

}  // namespace

std::optional<at::Device> torch_device(const Device& device) {
  if (device.is_host()) return at::Device(at::kCPU);
  const auto accelerator = at::getAccelerator();
  if (device.info().torch_mode == LF_TORCH_NONE || !accelerator) return std::nullopt;
  return at::Device(*accelerator, at::accelerator::getDeviceIndex());
}

at::Tensor tensor_over(std::byte* memory, int64_t elements, at::ScalarType type, at::Device where) {
  const at::TensorOptions options = at::dtype(type).device(where);
  return elements == 0 ? at::empty({0}, options) : at::from_blob(memory, {elements}, options);
}

at::Tensor owning_tensor(const Device& device, int64_t elements, at::Device where) {
  auto memory = std::make_shared<Device::Memory>(device, static_cast<uint64_t>(elements) * sizeof(float));
  if (elements == 0) return at::empty({0}, at::dtype(at::kFloat).device(where));
  return at::from_blob(
      memory->data(), {elements}, [memory](void*) {}, at::dtype(at::kFloat).device(where));
}

FloatRange range_of(const at::Tensor& tensor, int64_t offset, int64_t elements) {
  const at::Tensor own = tensor.narrow(0, offset, elements);
  return {.elements = elements,
          .host = nullptr,
          .read =
              [own](int64_t first, std::span<float> out) {
                over_host(out.data(), out.size()).copy_(own.narrow(0, first, static_cast<int64_t>(out.size())));
              },
          .write =
              [own](int64_t first, std::span<const float> in) {
                own.narrow(0, first, static_cast<int64_t>(in.size())).copy_(over_host(in.data(), in.size()));
              }};
}

void on_the_device(const at::Tensor& tensor, const std::function<void()>& work) {
  try {
    const c10::NoGradGuard no_grad;
    work();
  } catch (const c10::OutOfMemoryError& error) {
    fail_of_device(tensor, error, "; write optimizer.memory = \"host\", or make micro-batches smaller");
  } catch (const c10::AcceleratorError& error) {
    fail_of_device(tensor, error, "");
  }
}

}  // namespace lf
