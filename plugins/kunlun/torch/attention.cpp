// Which attention kernel the CPU would choose, for device tensors: without an answer LibTorch takes the plain one,
// whose bits differ.
#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>

#include "torch/bridge.h"
#include "torch/registrations.h"
#include "torch/shells.h"

namespace lf::kunlun {
namespace {

// Of the same shape, for a question that reads no element.
at::Tensor stand_in(Shells& shells, const at::Tensor& tensor) {
  at::Tensor made = bridge().host_visible()
                        ? shells.shell_of(tensor)
                        : at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  if (tensor.requires_grad() && made.is_floating_point()) made.set_requires_grad(true);
  return made;
}

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
               bool grouped) {
  Shells shells;
  const std::optional<at::Tensor> m = mask && mask->defined() ? std::optional(stand_in(shells, *mask)) : std::nullopt;
  return at::_fused_sdp_choice(stand_in(shells, query), stand_in(shells, key), stand_in(shells, value), m, dropout,
                               causal, scale, grouped);
}

}  // namespace

void register_attention() { at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose); }

}  // namespace lf::kunlun
