// CPU tensors over the bytes of device tensors, and device tensors made of what a CPU operator returned. Only where the
// host sees device memory.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lf::kunlun {

inline bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.device().is_privateuseone(); }

// The shells of one operator's arguments. Tensors that share storage have shells that share storage.
class Shells {
 public:
  at::Tensor shell_of(const at::Tensor& tensor);
  std::vector<at::Tensor> shells_of(at::TensorList tensors);

  // A result of the operator as a device tensor: the argument itself, a view of it, or new memory without a copy.
  at::Tensor from_result(const at::Tensor& result);

  // Gives arguments the sizes, and their storage the memory, that the operator gave to their shells.
  void carry_back();

 private:
  struct Pair {
    at::Tensor tensor, shell;
  };
  struct StoragePair {
    c10::Storage device, shell;
    const void* host;  // as it was
  };
  c10::Storage device_storage(const c10::Storage& of_shell);

  std::vector<Pair> pairs_;
  std::vector<StoragePair> storages_;
};

}  // namespace lf::kunlun
