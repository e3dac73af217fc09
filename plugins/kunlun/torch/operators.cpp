// Operators that need no arithmetic: memory, views, copies. What they cannot do without it counts as fallen back.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "torch/allocators.h"
#include "torch/bridge.h"
#include "torch/fallen_operators.h"
#include "torch/registrations.h"
#include "torch/shells.h"
#include "torch/storage.h"

namespace lf::kunlun {
namespace {

constexpr c10::DispatchKeySet kKey(c10::DispatchKey::PrivateUse1);

void require_here(std::optional<at::Device> device) {
  TORCH_CHECK(!device || !device->has_index() || *device == bridge().device(), "this process has ", bridge().device(),
              ", not ", *device);
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  require_here(device);
  TORCH_CHECK(!pinned.value_or(false), "device memory cannot be pinned");
  return at::detail::empty_generic(size, c10::GetAllocator(c10::DeviceType::PrivateUse1), kKey,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  require_here(device);
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(c10::DeviceType::PrivateUse1), kKey,
                                           c10::dtype_or_default(dtype));
}

void make_room(c10::TensorImpl& impl, size_t bytes) {
  auto* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) resize_storage(*storage, bytes);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_sizes_contiguous(size);
  make_room(impl, at::detail::computeStorageNbytesContiguous(size, impl.itemsize(), impl.storage_offset()));
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "resize_: the memory format to preserve is not known");
    impl.empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage_view(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                             at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_offset(offset);
  if (stride.data() != nullptr) {
    impl.set_sizes_and_strides(size, stride);
    make_room(impl, at::detail::computeStorageNbytes(size, stride, impl.itemsize(), offset));
  } else {
    impl.set_sizes_contiguous(size);
    make_room(impl, at::detail::computeStorageNbytesContiguous(size, impl.itemsize(), offset));
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_view(self, std::move(source), 0, n, {});
}

bool is_plain_copy(const at::Tensor& from, const at::Tensor& to) {
  const bool same_order = (from.is_contiguous() && to.is_contiguous()) ||
                          (from.strides() == to.strides() && from.is_non_overlapping_and_dense());
  return same_order && from.sizes() == to.sizes() && from.dtype() == to.dtype() && from.is_conj() == to.is_conj() &&
         from.is_neg() == to.is_neg();
}

void copy_bytes(const at::Tensor& from, const at::Tensor& to) {
  const size_t bytes = from.nbytes();
  if (bytes == 0) return;
  if (is_ours(from) && is_ours(to))
    bridge().on_device(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
  else if (is_ours(to))
    bridge().to_device(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
  else
    bridge().from_device(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
}

// The whole of what `tensor` spans in its storage, on the CPU, and a view of it with the tensor's strides.
at::Tensor brought_over(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  copy._set_conj(tensor.is_conj());
  copy._set_neg(tensor.is_neg());
  if (copy.storage().nbytes() > 0)
    bridge().from_device(copy.mutable_data_ptr(), tensor.const_data_ptr(), copy.storage().nbytes());
  return copy;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  if (is_plain_copy(self, to)) {
    copy_bytes(self, to);
    return to;
  }
  // Between unlike layouts or types the elements have to be walked through. To the host and from it that happens on the
  // host's side and is no operator of the device's.
  if (is_ours(self) && is_ours(to)) fallen_operators().note("aten::_copy_from");
  if (bridge().host_visible()) {
    bridge().settle();
    Shells shells;
    shells.shell_of(to).copy_(shells.shell_of(self));
  } else {
    const at::Tensor on_cpu = brought_over(to);
    on_cpu.copy_(brought_over(self));
    if (is_ours(to) && on_cpu.storage().nbytes() > 0)
      bridge().to_device(to.mutable_data_ptr(), on_cpu.const_data_ptr(), on_cpu.storage().nbytes());
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  at::Tensor one = at::empty({}, self.options().device(at::kCPU));
  bridge().from_device(one.mutable_data_ptr(), self.const_data_ptr(), self.element_size());
  one._set_conj(self.is_conj());
  one._set_neg(self.is_neg());
  return one.item();
}

at::Tensor shell_or_copy(Shells& shells, const at::Tensor& tensor) {
  return bridge().host_visible() ? shells.shell_of(tensor) : brought_over(tensor);
}

at::Tensor to_device(Shells& shells, const at::Tensor& result) {
  if (!result.defined() || bridge().host_visible()) return shells.from_result(result);
  return result.to(bridge().device());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  fallen_operators().note("aten::convolution");
  bridge().settle();
  Shells shells;
  const at::Tensor x = shell_or_copy(shells, input), w = shell_or_copy(shells, weight);
  const std::optional<at::Tensor> b =
      bias && bias->defined() ? std::optional(shell_or_copy(shells, *bias)) : std::nullopt;
  std::optional<ResultsOnDevice> results;
  if (bridge().host_visible()) results.emplace();
  const at::Tensor result =
      at::convolution_symint(x, w, b, stride, padding, dilation, transposed, output_padding, std::move(groups));
  results.reset();
  return to_device(shells, result);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  fallen_operators().note("aten::convolution_backward");
  bridge().settle();
  Shells shells;
  const at::Tensor g = shell_or_copy(shells, gradient), x = shell_or_copy(shells, input),
                   w = shell_or_copy(shells, weight);
  const c10::SymInt bias_size = transposed ? w.sym_size(1) * groups : w.sym_size(0);
  std::optional<ResultsOnDevice> results;
  if (bridge().host_visible()) results.emplace();
  const auto [of_input, of_weight, of_bias] = at::convolution_backward_symint(
      g, x, w, c10::SymIntArrayRef(&bias_size, 1), stride, padding, dilation, transposed, output_padding, groups, mask);
  results.reset();
  return {to_device(shells, of_input), to_device(shells, of_weight), to_device(shells, of_bias)};
}

}  // namespace

void register_operators() {
  // Kept for the life of the process: the registrations end with these objects.
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten->impl("empty.memory_format", TORCH_FN(empty));
  aten->impl("empty_strided", TORCH_FN(empty_strided));
  aten->impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  aten->impl("view", TORCH_FN(at::native::view));
  aten->impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  aten->impl("unfold", TORCH_FN(at::native::unfold));
  aten->impl("view_as_real", TORCH_FN(at::native::view_as_real));
  aten->impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  aten->impl("resize_", TORCH_FN(resize_));
  aten->impl("set_.source_Storage", TORCH_FN(set_storage));
  aten->impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_view));
  aten->impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  aten->impl("_copy_from", TORCH_FN(copy_from));
  aten->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten->impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  aten->impl("convolution_overrideable", TORCH_FN(convolution));
  aten->impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  // Without these, a copy of a conjugated or negated tensor resolves it by a clone, which is a copy: for ever.
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    auto* through = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    through->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace lf::kunlun
