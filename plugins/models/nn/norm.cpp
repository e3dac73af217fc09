#include "nn/norm.h"

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/into.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

// The part of y = x̂ w + b that is x̂.
at::Tensor centred(const at::Tensor& x, const NormStatistics& statistics) {
  at::Tensor value = x.to(wide(x));
  if (statistics.mean.defined()) value = value - statistics.mean;
  return value * statistics.inverse_deviation;
}

at::Tensor weight_of(const Norm& norm, const at::Tensor& like) {
  return norm.offset == 0 ? norm.weight.value : norm.weight.value.to(like.scalar_type()) + norm.offset;
}

at::Tensor plain_normalize(const at::Tensor& x, const Norm& norm, NormStatistics* statistics) {
  at::Tensor value = x.to(wide(x));
  if (norm.kind == NormKind::kLayer) {
    statistics->mean = value.mean(-1, true);
    value = value - statistics->mean;
  }
  statistics->inverse_deviation = (value.square().mean(-1, true) + norm.eps).rsqrt();
  at::Tensor y = value * statistics->inverse_deviation * weight_of(norm, value);
  if (norm.bias.defined()) y = y + norm.bias.value;
  return y.to(x.scalar_type());
}

at::Tensor plain_backward(const at::Tensor& dy, const at::Tensor& x, const NormStatistics& statistics, const Norm& norm,
                          bool wants_input_gradient) {
  const at::Tensor g = dy.to(wide(x)), x_hat = centred(x, statistics);
  if (norm.weight.trained()) norm.weight.add_gradient((g * x_hat).sum(0));
  if (norm.bias.trained()) norm.bias.add_gradient(g.sum(0));
  if (!wants_input_gradient) return {};
  const at::Tensor gw = g * weight_of(norm, g);
  at::Tensor dx = gw - x_hat * (gw * x_hat).mean(-1, true);
  if (norm.kind == NormKind::kLayer) dx = dx - gw.mean(-1, true);
  return (dx * statistics.inverse_deviation).to(x.scalar_type());
}

}  // namespace

at::Tensor normalize(const at::Tensor& x, const Norm& norm, NormStatistics* statistics, const at::Tensor& into) {
  if (cpu::fits(x)) return cpu::normalize(x, norm, statistics, into);
  return put_into(into, plain_normalize(x, norm, statistics));
}

at::Tensor normalize_backward(const at::Tensor& dy, const at::Tensor& x, const NormStatistics& statistics,
                              const Norm& norm, bool wants_input_gradient, const at::Tensor& into) {
  if (cpu::fits(x)) return cpu::normalize_backward(dy, x, statistics, norm, wants_input_gradient, into);
  const at::Tensor dx = plain_backward(dy, x, statistics, norm, wants_input_gradient);
  return wants_input_gradient ? put_into(into, dx) : dx;
}

at::Tensor norm(const at::Tensor& x, const Norm& norm) {
  NormStatistics statistics;
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = normalize(x, norm, &statistics);
  }
  const bool wants = x.requires_grad();
  return record(y, {.inputs = {x},
                    .trains = norm.trained(),
                    .saved = {x, statistics.mean, statistics.inverse_deviation},
                    .backward = [norm, wants](const Tensors& dy, const Tensors& saved) -> Tensors {
                      return {normalize_backward(dy[0], saved[0], {saved[1], saved[2]}, norm, wants)};
                    }});
}

}  // namespace lf::nn
