#include "nn/modulation.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

at::Tensor vector(const at::Tensor& rows, int64_t of, int64_t place, int64_t width) {
  return rows[of].narrow(0, place * width, width);
}

// Each run as the norm that it is: weight 1 + scale, bias shift.
struct RunNorm {
  int64_t begin, rows;
  Norm norm;
};

std::vector<RunNorm> norms_of(const Modulation& modulation, const Runs& runs, int64_t width) {
  std::vector<RunNorm> norms;
  for (size_t i = 0; i < runs.count(); ++i) {
    if (runs.starts[i + 1] == runs.starts[i]) continue;
    Norm norm{modulation.kind, modulation.eps, {}, {}, /*offset=*/1};
    norm.weight.value = vector(modulation.rows, runs.of[i], modulation.scale, width).contiguous();
    norm.bias.value = vector(modulation.rows, runs.of[i], modulation.shift, width).contiguous();
    norms.push_back({runs.starts[i], runs.starts[i + 1] - runs.starts[i], std::move(norm)});
  }
  return norms;
}

at::Tensor modulate(const at::Tensor& x, const Modulation& modulation, const Runs& runs) {
  const at::Tensor y = at::empty_like(x);
  for (const RunNorm& run : norms_of(modulation, runs, x.size(1))) {
    NormStatistics statistics;
    normalize(x.narrow(0, run.begin, run.rows), run.norm, &statistics, y.narrow(0, run.begin, run.rows));
  }
  return y;
}

// Gradients of x and of the conditioning rows.
Tensors modulate_backward(const at::Tensor& dy, const at::Tensor& x, const Modulation& modulation, const Runs& runs) {
  const int64_t width = x.size(1);
  const at::Tensor dx = at::empty_like(x);
  at::Tensor drows = at::zeros(modulation.rows.sizes(), modulation.rows.options().dtype(wide(x)));
  size_t i = 0;
  for (RunNorm& run : norms_of(modulation, runs, width)) {
    while (runs.starts[i] != run.begin || runs.starts[i + 1] == runs.starts[i]) ++i;
    run.norm.weight.gradient = vector(drows, runs.of[i], modulation.scale, width);
    run.norm.bias.gradient = vector(drows, runs.of[i], modulation.shift, width);
    const at::Tensor part = x.narrow(0, run.begin, run.rows);
    NormStatistics statistics;
    normalize(part, run.norm, &statistics);
    normalize_backward(dy.narrow(0, run.begin, run.rows), part, statistics, run.norm, true,
                       dx.narrow(0, run.begin, run.rows));
  }
  return {dx, drows.to(modulation.rows.scalar_type())};
}

// residual + gate · y
at::Tensor gated(const at::Tensor& y, const at::Tensor& rows, int64_t gate, const Runs& runs,
                 const at::Tensor& residual) {
  at::Tensor out = at::empty_like(y);
  for (size_t i = 0; i < runs.count(); ++i) {
    const int64_t begin = runs.starts[i], n = runs.starts[i + 1] - begin;
    at::Tensor part = out.narrow(0, begin, n);
    at::addcmul_out(part, residual.narrow(0, begin, n), y.narrow(0, begin, n),
                    vector(rows, runs.of[i], gate, y.size(1)));
  }
  return out;
}

struct GatedBackward {
  at::Tensor dy, drows;
};
GatedBackward gated_backward(const at::Tensor& dout, const at::Tensor& y, const at::Tensor& rows, int64_t gate,
                             const Runs& runs) {
  GatedBackward back{at::empty_like(y), at::zeros(rows.sizes(), rows.options().dtype(wide(y)))};
  for (size_t i = 0; i < runs.count(); ++i) {
    const int64_t begin = runs.starts[i], n = runs.starts[i + 1] - begin;
    if (n == 0) continue;
    const at::Tensor g = dout.narrow(0, begin, n), of_gate = vector(rows, runs.of[i], gate, y.size(1));
    at::Tensor part = back.dy.narrow(0, begin, n), sum = vector(back.drows, runs.of[i], gate, y.size(1));
    if (cpu::fits(y)) {
      sum.add_(cpu::gate_backward(g, y.narrow(0, begin, n), of_gate, part));
      continue;
    }
    at::mul_out(part, g, y.narrow(0, begin, n));  // the product's memory first, then what is wanted there
    sum.add_(part.sum(0, false, sum.scalar_type()));
    at::mul_out(part, g, of_gate);
  }
  back.drows = back.drows.to(rows.scalar_type());
  return back;
}

// [beside, activated] with room for the second: the widest rows of a layer, which are written once and in place.
at::Tensor room_beside(const at::Tensor& beside, int64_t width) {
  const int64_t first = beside.size(1);
  at::Tensor both = at::empty({beside.size(0), first + width}, beside.options());
  both.narrow(1, 0, first).copy_(beside);
  return both;
}

at::Tensor beside_activated(const at::Tensor& h, Activation activation, const at::Tensor& beside, int64_t columns) {
  if (!beside.defined()) return activate(h, activation);
  const int64_t first = beside.size(1), width = columns - first;
  const at::Tensor both = room_beside(beside, width);
  activate(h, activation, both.narrow(1, first, width));
  return both;
}

}  // namespace

Runs slice(const Runs& runs, int64_t begin, int64_t end) {
  Runs part;
  for (size_t i = 0; i < runs.count(); ++i) {
    const int64_t from = std::max(runs.starts[i], begin), to = std::min(runs.starts[i + 1], end);
    if (from >= to) continue;
    part.starts.push_back(to - begin);
    part.of.push_back(runs.of[i]);
  }
  return part;
}

at::Tensor add_to_rows(const at::Tensor& rows, const Parameter& table) {
  at::Tensor sum;
  {
    at::NoGradGuard no_grad;
    sum = rows + table.value.flatten();
  }
  return record(sum,
                {.inputs = {rows},
                 .trains = table.trained(),
                 .saved = {},
                 .backward = [table](const Tensors& dy, const Tensors&) -> Tensors {
                   if (table.trained())
                     table.add_gradient(dy[0].sum(0, false, table.gradient.scalar_type()).view(table.gradient.sizes()));
                   return {dy[0]};
                 }});
}

Tensors modulated_linears(const at::Tensor& x, const Modulation& modulation, const Runs& runs,
                          const std::vector<Linear>& linears) {
  TORCH_CHECK(runs.rows() == x.size(0), "modulation covers ", runs.rows(), " rows, there are ", x.size(0));
  Tensors outputs;
  bool trains = false;
  {
    at::NoGradGuard no_grad;
    const at::Tensor y = modulate(x, modulation, runs);
    for (const Linear& linear : linears) {
      outputs.push_back(apply(linear, y));
      trains = trains || linear.trained();
    }
  }
  const bool wants = x.requires_grad() || modulation.rows.requires_grad();
  Modulation places = modulation;
  places.rows.reset();  // comes back as a saved tensor
  return record(std::move(outputs), {.inputs = {x, modulation.rows},
                                     .trains = trains,
                                     .saved = {x, modulation.rows},
                                     .backward = [=](const Tensors& dy, const Tensors& saved) -> Tensors {
                                       Modulation again = places;
                                       again.rows = saved[1];
                                       const at::Tensor y = modulate(saved[0], again, runs);
                                       at::Tensor dn;
                                       for (size_t i = 0; i < linears.size(); ++i) {
                                         if (!dy[i].defined()) continue;
                                         add_gradients(linears[i], dy[i], y);
                                         if (wants) dn = input_gradient(linears[i], dy[i], dn);
                                       }
                                       if (!wants || !dn.defined()) return {at::Tensor(), at::Tensor()};
                                       return modulate_backward(dn, saved[0], again, runs);
                                     }});
}

at::Tensor linear_gated(const at::Tensor& x, const Linear& linear, const at::Tensor& rows, int64_t gate,
                        const Runs& runs, const at::Tensor& residual) {
  at::Tensor product, out;
  {
    at::NoGradGuard no_grad;
    product = apply(linear, x);
    out = gated(product, rows, gate, runs, residual);
  }
  const bool wants = x.requires_grad();
  return record(out, {.inputs = {x, rows, residual},
                      .trains = linear.trained(),
                      .saved = {x, rows, product},
                      .backward = [=](const Tensors& dout, const Tensors& saved) -> Tensors {
                        const GatedBackward back = gated_backward(dout[0], saved[2], saved[1], gate, runs);
                        add_gradients(linear, back.dy, saved[0]);
                        return {wants ? input_gradient(linear, back.dy) : at::Tensor(), back.drows, dout[0]};
                      }});
}

at::Tensor activate_linear_gated(const at::Tensor& h, Activation activation, const at::Tensor& beside,
                                 const Linear& linear, const at::Tensor& rows, int64_t gate, const Runs& runs,
                                 const at::Tensor& residual) {
  at::Tensor product, out;
  {
    at::NoGradGuard no_grad;
    product = apply(linear, beside_activated(h, activation, beside, linear.matrix().size(1)));
    out = gated(product, rows, gate, runs, residual);
  }
  return record(out, {.inputs = {h, beside, rows, residual},
                      .trains = linear.trained(),
                      .saved = {h, beside, rows, product},
                      .backward = [=](const Tensors& dout, const Tensors& saved) -> Tensors {
                        const GatedBackward back = gated_backward(dout[0], saved[3], saved[2], gate, runs);
                        const at::Tensor dx = input_gradient(linear, back.dy);
                        if (!saved[1].defined()) {
                          const auto activated = activate_backward(dx, saved[0], activation);
                          add_gradients(linear, back.dy, activated.value);
                          return {activated.dh, at::Tensor(), back.drows, dout[0]};
                        }
                        const int64_t first = saved[1].size(1), width = dx.size(1) - first;
                        const at::Tensor both = room_beside(saved[1], width);
                        const auto activated = activate_backward(dx.narrow(1, first, width), saved[0], activation,
                                                                 both.narrow(1, first, width));
                        add_gradients(linear, back.dy, both);
                        return {activated.dh, dx.narrow(1, 0, first).contiguous(), back.drows, dout[0]};
                      }});
}

}  // namespace lf::nn
