#include "torch/bridge.h"

#include <optional>

#include <c10/util/Exception.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::kunlun {
namespace {

std::optional<Bridge>& slot() {
  static std::optional<Bridge> bridge;
  return bridge;
}

void check(int32_t code, const lf_err& err) {
  if (code == LF_OK) return;
  if (code == LF_E_NOMEM_DEVICE) TORCH_CHECK_WITH(OutOfMemoryError, false, err.message);
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, static_cast<int32_t>(err.native), err.message);
}

template <typename Call>
void call(Call&& function) {
  lf_err err = sdk::make_err();
  check(function(&err), err);
}

}  // namespace

const Bridge& bridge() { return *slot(); }
void set_bridge(const lf_kunlun_device& device) { slot().emplace(device); }

void* Bridge::allocate(uint64_t bytes) const {
  void* memory = nullptr;
  call([&](lf_err* err) { return device_.allocate(device_.context, bytes, &memory, err); });
  return memory;
}

void Bridge::release(void* memory) const {
  call([&](lf_err* err) { return device_.release(device_.context, memory, err); });
}

void* Bridge::host_view(const void* memory, uint64_t bytes) const {
  void* host = nullptr;
  if (memory == nullptr) return nullptr;
  call([&](lf_err* err) { return device_.host_view(device_.context, memory, bytes, &host, err); });
  return host;
}

void Bridge::to_device(void* memory, const void* host, uint64_t bytes) const {
  call([&](lf_err* err) { return device_.to_device(device_.context, memory, host, bytes, err); });
}

void Bridge::from_device(void* host, const void* memory, uint64_t bytes) const {
  call([&](lf_err* err) { return device_.from_device(device_.context, host, memory, bytes, err); });
}

void Bridge::on_device(void* to, const void* from, uint64_t bytes) const {
  call([&](lf_err* err) { return device_.on_device(device_.context, to, from, bytes, err); });
}

void Bridge::settle() const {
  call([&](lf_err* err) { return device_.settle(device_.context, err); });
}

void Bridge::synchronize() const {
  call([&](lf_err* err) { return device_.synchronize(device_.context, err); });
}

}  // namespace lf::kunlun
