// Every operator without a kernel of its own. Where the host sees device memory, the CPU's kernel works on the very
// bytes; elsewhere LibTorch's own fallback copies there and back.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "torch/allocators.h"
#include "torch/bridge.h"
#include "torch/fallen_operators.h"
#include "torch/registrations.h"
#include "torch/shells.h"

namespace lf::kunlun {
namespace {

c10::IValue to_cpu(const c10::IValue& value, Shells& shells) {
  if (value.isTensor()) return shells.shell_of(value.toTensor());
  if (value.isTensorList()) return shells.shells_of(value.toTensorVector());
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(shells.shell_of(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::DeviceType::CPU);
  return value;
}

c10::IValue from_cpu(const c10::IValue& value, Shells& shells) {
  if (value.isTensor()) return shells.from_result(value.toTensor());
  if (!value.isTensorList()) return value;
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(shells.from_result(tensor));
  return tensors;
}

void run_in_place(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const size_t n_arguments = operation.schema().arguments().size(), n_results = operation.schema().returns().size();
  Shells shells;
  for (size_t i = stack->size() - n_arguments; i < stack->size(); ++i) (*stack)[i] = to_cpu((*stack)[i], shells);
  bridge().settle();
  {
    const ResultsOnDevice results;
    operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  for (size_t i = stack->size() - n_results; i < stack->size(); ++i) (*stack)[i] = from_cpu((*stack)[i], shells);
  shells.carry_back();
}

void fall_back(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  fallen_operators().note(operation);
  if (bridge().host_visible())
    run_in_place(operation, stack);
  else
    at::native::cpu_fallback(operation, stack, /*error_on_views=*/true);  // else it returns copies of views in silence
}

// Operators with a kernel for the CPU and a composite one beside it: the composite one would come before the fallback,
// and gives other bits than the CPU.
void prefer_the_cpus_kernels(torch::Library& library) {
  constexpr std::string_view kNamespace = "aten::";
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::string full = c10::toString(name);
    if (!full.starts_with(kNamespace)) continue;
    const auto operation = c10::Dispatcher::singleton().findSchema(name);
    if (!operation || !operation->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
        operation->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      continue;
    if (operation->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        operation->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
      library.impl(full.substr(kNamespace.size()).c_str(), torch::CppFunction::makeFromBoxedFunction<&fall_back>());
  }
}

}  // namespace

void register_fallback() {
  // Kept for the life of the process: the registrations end with these objects.
  auto* everything = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  everything->fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  prefer_the_cpus_kernels(*aten);
}

}  // namespace lf::kunlun
