#include "torch/shells.h"

#include <algorithm>

#include <c10/core/CPUAllocator.h>

#include "torch/allocators.h"
#include "torch/bridge.h"
#include "torch/memory_pool.h"
#include "torch/storage.h"

namespace lf::kunlun {
namespace {

at::Tensor like(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  made._set_conj(tensor.is_conj());
  made._set_neg(tensor.is_neg());
  return made;
}

bool same_geometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

}  // namespace

at::Tensor Shells::shell_of(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  for (const Pair& pair : pairs_)
    if (pair.tensor.is_same(tensor)) return pair.shell;
  const c10::Storage& storage = tensor.storage();
  auto known = std::find_if(storages_.begin(), storages_.end(), [&](const StoragePair& pair) {
    return pair.device.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
  });
  if (known == storages_.end()) {
    void* host = bridge().host_view(storage.data(), storage.nbytes());
    c10::Storage shell(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                                             c10::DataPtr(host, c10::Device(c10::DeviceType::CPU)),
                                                             c10::GetCPUAllocator(), /*resizable=*/true));
    known = storages_.insert(known, {storage, std::move(shell), host});
  }
  pairs_.push_back({tensor, like(tensor, known->shell, c10::DispatchKey::CPU)});
  return pairs_.back().shell;
}

std::vector<at::Tensor> Shells::shells_of(at::TensorList tensors) {
  std::vector<at::Tensor> shells;
  for (const at::Tensor& tensor : tensors) shells.push_back(shell_of(tensor));
  return shells;
}

c10::Storage Shells::device_storage(const c10::Storage& of_shell) {
  for (const StoragePair& pair : storages_)
    if (pair.shell.unsafeGetStorageImpl() == of_shell.unsafeGetStorageImpl()) return pair.device;
  auto* impl = of_shell.unsafeGetStorageImpl();
  void* host = impl->mutable_data();
  c10::DataPtr memory;
  if (void* ours = pool().device_address(host)) {
    // The device's from here on; the CPU tensor that brought it keeps a bare pointer.
    impl->set_data_ptr(c10::DataPtr(host, c10::Device(c10::DeviceType::CPU))).release_context();
    memory = device_memory(ours);
  } else {  // allocated by a thread that does not know of us, or no bytes at all
    memory = device_memory(pool().allocate(impl->nbytes()));
    if (impl->nbytes() > 0) bridge().to_device(memory.get(), host, impl->nbytes());
  }
  c10::Storage device(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), impl->nbytes(),
                                                            std::move(memory),
                                                            c10::GetAllocator(c10::DeviceType::PrivateUse1), true));
  storages_.push_back({device, of_shell, host});
  return device;
}

at::Tensor Shells::from_result(const at::Tensor& result) {
  if (!result.defined() || !result.device().is_cpu()) return result;
  for (const Pair& pair : pairs_)
    if (pair.shell.is_same(result)) return pair.tensor;
  pairs_.push_back({like(result, device_storage(result.storage()), c10::DispatchKey::PrivateUse1), result});
  return pairs_.back().tensor;
}

void Shells::carry_back() {
  for (StoragePair& pair : storages_) {
    auto* shell = pair.shell.unsafeGetStorageImpl();
    auto* device = pair.device.unsafeGetStorageImpl();
    if (shell->data() == pair.host) continue;
    void* host = shell->mutable_data();
    void* ours = pool().device_address(host);
    const size_t bytes = shell->nbytes();
    if (ours != nullptr) {
      shell->set_data_ptr(c10::DataPtr(host, c10::Device(c10::DeviceType::CPU))).release_context();
      device->set_data_ptr(device_memory(ours));
    } else {
      device->set_data_ptr(device_memory(pool().allocate(bytes)));
      if (bytes > 0) bridge().to_device(device->mutable_data(), host, bytes);
    }
    device->set_nbytes(bytes);
    pair.host = host;
  }
  for (const Pair& pair : pairs_)
    if (!same_geometry(pair.tensor, pair.shell)) {
      auto* impl = pair.tensor.unsafeGetTensorImpl();
      impl->set_storage_offset(pair.shell.storage_offset());
      impl->set_sizes_and_strides(pair.shell.sizes(), pair.shell.strides());
    }
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  c10::DataPtr grown = device_memory(pool().allocate(bytes));
  if (const size_t kept = std::min(bytes, storage.nbytes()); kept > 0)
    bridge().on_device(grown.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(grown));
  storage.set_nbytes(bytes);
}

}  // namespace lf::kunlun
