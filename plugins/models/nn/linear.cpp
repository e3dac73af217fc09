#include "nn/linear.h"

#include <ATen/ATen.h>

#include "nn/matmul.h"

namespace lf::nn {

at::Tensor apply(const Linear& linear, const at::Tensor& x, const at::Tensor& addend) {
  const at::Tensor w = linear.matrix();
  const at::Tensor& bias = linear.bias.value;
  if (linear.adapted()) {  // all is added before the one rounding
    at::Tensor sum = adapter_rows(*linear.weight.adapters, x, w.size(0));
    if (bias.defined()) sum.add_(bias);
    if (addend.defined()) sum.add_(addend);
    return multiply(x, w, Second::kTransposed, sum);
  }
  if (!addend.defined()) return multiply(x, w, Second::kTransposed, bias);
  if (!bias.defined()) return multiply(x, w, Second::kTransposed, addend);
  // Both are added before the one rounding where the product is wider than the rows.
  const at::Tensor both = x.scalar_type() == at::kBFloat16 ? addend.to(at::kFloat) + bias : addend + bias;
  return multiply(x, w, Second::kTransposed, both);
}

void add_gradients(const Linear& linear, const at::Tensor& dy, const at::Tensor& x) {
  if (linear.weight.trained()) add_transposed_product(linear.weight.gradient.flatten(1), dy, x);
  if (linear.adapted()) add_adapter_gradients(*linear.weight.adapters, dy, x);
  if (linear.bias.trained()) linear.bias.add_gradient(dy.sum(0, false, linear.bias.gradient.scalar_type()));
}

at::Tensor input_gradient(const Linear& linear, const at::Tensor& dy, const at::Tensor& addend) {
  if (!linear.adapted()) return multiply(dy, linear.matrix(), Second::kPlain, addend);
  at::Tensor sum = adapter_input_gradient(*linear.weight.adapters, dy);
  if (addend.defined()) sum.add_(addend);
  return multiply(dy, linear.matrix(), Second::kPlain, sum);
}

at::Tensor linear(const at::Tensor& x, const Linear& linear) {
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = apply(linear, x);
  }
  const bool wants = x.requires_grad();
  return record(y, {.inputs = {x},
                    .trains = linear.trained(),
                    .saved = {linear.keeps_input() ? x : at::Tensor()},
                    .backward = [linear, wants](const Tensors& dy, const Tensors& saved) -> Tensors {
                      add_gradients(linear, dy[0], saved[0]);
                      return {wants ? input_gradient(linear, dy[0]) : at::Tensor()};
                    }});
}

at::Tensor linear_add(const at::Tensor& x, const Linear& linear, const at::Tensor& residual) {
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = apply(linear, x, residual);
  }
  const bool wants = x.requires_grad();
  return record(y, {.inputs = {x, residual},
                    .trains = linear.trained(),
                    .saved = {linear.keeps_input() ? x : at::Tensor()},
                    .backward = [linear, wants](const Tensors& dy, const Tensors& saved) -> Tensors {
                      add_gradients(linear, dy[0], saved[0]);
                      return {wants ? input_gradient(linear, dy[0]) : at::Tensor(), dy[0]};
                    }});
}

at::Tensor wide_linear(const at::Tensor& x, const Parameter& weight) {
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = product_f32(x, weight.value, Second::kTransposed);
  }
  const bool wants = x.requires_grad();
  return record(
      y, {.inputs = {x},
          .trains = weight.trained(),
          .saved = {weight.trained() ? x : at::Tensor()},
          .backward = [weight, wants, type = x.scalar_type()](const Tensors& dy, const Tensors& saved) -> Tensors {
            const at::Tensor& g = dy[0];
            if (weight.trained()) weight.add_gradient(at::mm(g.t(), saved[0].to(g.scalar_type())));
            return {wants ? at::mm(g, weight.value.to(g.scalar_type())).to(type) : at::Tensor()};
          }});
}

at::Tensor norm_linear(const at::Tensor& x, const Norm& norm, const Linear& linear, int64_t fold) {
  const auto folded = [fold](const at::Tensor& t) { return fold == 1 ? t : t.view({-1, fold * t.size(1)}); };
  NormStatistics statistics;
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = apply(linear, folded(normalize(x, norm, &statistics)));
  }
  const bool wants = x.requires_grad();
  return record(y, {.inputs = {x},
                    .trains = norm.trained() || linear.trained(),
                    .saved = {x, statistics.mean, statistics.inverse_deviation},
                    .backward = [norm, linear, wants, folded](const Tensors& dy, const Tensors& saved) -> Tensors {
                      const at::Tensor& x = saved[0];
                      const NormStatistics statistics{saved[1], saved[2]};
                      if (linear.trained()) {
                        NormStatistics again;
                        add_gradients(linear, dy[0], folded(normalize(x, norm, &again)));
                      }
                      if (!wants && !norm.trained()) return {at::Tensor()};
                      const at::Tensor dn = input_gradient(linear, dy[0]).view(x.sizes());
                      return {normalize_backward(dn, x, statistics, norm, wants)};
                    }});
}

}  // namespace lf::nn
