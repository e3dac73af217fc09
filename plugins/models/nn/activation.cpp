#include "nn/activation.h"

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/into.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

constexpr double kQuickGeluSlope = 1.702;

at::Tensor plain_activate(const at::Tensor& h, Activation activation) {
  switch (activation) {
    case Activation::kGatedSilu: {
      const auto halves = h.to(wide(h)).chunk(2, -1);
      return (at::silu(halves[0]) * halves[1]).to(h.scalar_type());
    }
    case Activation::kGatedGeluTanh: {
      const auto halves = h.to(wide(h)).chunk(2, -1);
      return (at::gelu(halves[0], "tanh") * halves[1]).to(h.scalar_type());
    }
    case Activation::kQuickGelu: {
      const at::Tensor x = h.to(wide(h));
      return (x * at::sigmoid(kQuickGeluSlope * x)).to(h.scalar_type());
    }
    case Activation::kGelu:
      return at::gelu(h, "none");
    case Activation::kGeluTanh:
      return at::gelu(h, "tanh");
    case Activation::kSilu:
      return at::silu(h);
  }
  TORCH_CHECK(false, "unknown activation");
}

at::Tensor plain_backward(const at::Tensor& dy, const at::Tensor& h, Activation activation) {
  switch (activation) {
    case Activation::kGatedSilu: {
      const auto halves = h.to(wide(h)).chunk(2, -1);
      const at::Tensor g = dy.to(wide(h));
      return at::cat({at::silu_backward(g * halves[1], halves[0]), g * at::silu(halves[0])}, -1).to(h.scalar_type());
    }
    case Activation::kGatedGeluTanh: {
      const auto halves = h.to(wide(h)).chunk(2, -1);
      const at::Tensor g = dy.to(wide(h));
      return at::cat({at::gelu_backward(g * halves[1], halves[0], "tanh"), g * at::gelu(halves[0], "tanh")}, -1)
          .to(h.scalar_type());
    }
    case Activation::kQuickGelu: {
      const at::Tensor x = h.to(wide(h)), s = at::sigmoid(kQuickGeluSlope * x);
      return (dy.to(wide(h)) * s * (1 + kQuickGeluSlope * x * (1 - s))).to(h.scalar_type());
    }
    case Activation::kGelu:
      return at::gelu_backward(dy, h, "none");
    case Activation::kGeluTanh:
      return at::gelu_backward(dy, h, "tanh");
    case Activation::kSilu:
      return at::silu_backward(dy, h);
  }
  TORCH_CHECK(false, "unknown activation");
}

bool has_loop(const at::Tensor& h, Activation activation, const at::Tensor& into) {
  return cpu::fits(h) && activation != Activation::kGelu && activation != Activation::kSilu &&
         (!into.defined() || !is_gated(activation));
}

}  // namespace

at::Tensor activate(const at::Tensor& h, Activation activation, const at::Tensor& into) {
  if (has_loop(h, activation, into)) return cpu::activate(h, activation, into);
  return put_into(into, plain_activate(h, activation));
}

ActivationBackward activate_backward(const at::Tensor& dy, const at::Tensor& h, Activation activation,
                                     const at::Tensor& into) {
  if (has_loop(h, activation, into)) return cpu::activate_backward(dy, h, activation, into);
  return {plain_backward(dy, h, activation), put_into(into, plain_activate(h, activation))};
}

at::Tensor activate_linear(const at::Tensor& h, Activation activation, const Linear& linear,
                           const at::Tensor& residual) {
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = apply(linear, activate(h, activation), residual);
  }
  const bool wants = h.requires_grad(), adds = residual.defined();
  return record(y, {.inputs = adds ? Tensors{h, residual} : Tensors{h},
                    .trains = linear.trained(),
                    .saved = {h},
                    .backward = [linear, activation, wants, adds](const Tensors& dy, const Tensors& saved) -> Tensors {
                      const at::Tensor& h = saved[0];
                      at::Tensor dh;
                      if (wants) {
                        const auto back = activate_backward(input_gradient(linear, dy[0]), h, activation);
                        add_gradients(linear, dy[0], back.value);
                        dh = back.dh;
                      } else {
                        add_gradients(linear, dy[0], activate(h, activation));
                      }
                      return adds ? Tensors{dh, dy[0]} : Tensors{dh};
                    }});
}

}  // namespace lf::nn
