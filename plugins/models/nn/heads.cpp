#include "nn/heads.h"

#include <cmath>

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

at::Tensor swapped(const at::Tensor& x) { return x.unflatten(-1, {-1, 2}).flip(-1).flatten(-2); }

// Any device, any type, by LibTorch's autograd: one kind of heads of one stream.
at::Tensor composed_heads(const at::Tensor& x, const Norm& weights, bool rotated, const HeadsShape& shape,
                          const PairRotary& rotary, const at::Tensor& to) {
  at::Tensor y = x;
  if (weights.weight.defined())
    y = shape.norm_across ? norm(y.contiguous(), weights)
                          : norm(y.reshape({-1, shape.head_size}), weights).view(x.sizes());
  if (!rotated || !rotary.present()) return y;
  const auto rows = [&](const at::Tensor& t) { return (to.defined() ? t.index_select(0, to) : t).unsqueeze(1); };
  const at::Tensor heads = y.view({y.size(0), shape.heads, shape.head_size}).to(wide(x));
  return (heads * rows(rotary.cosine) + swapped(heads) * rows(rotary.sine)).flatten(1).to(x.scalar_type());
}

}  // namespace

PairRotary pair_rotary(const PairRotarySpec& spec, const at::Tensor& positions) {
  const auto type = spec.in_f32 ? at::kFloat : at::kDouble;
  Tensors angles;
  for (size_t axis = 0; axis < spec.sections.size(); ++axis) {
    const at::Tensor exponent = at::arange(0, spec.sections[axis], 2, type) / static_cast<double>(spec.sections[axis]);
    const at::Tensor frequency = (1.0 / at::pow(spec.theta, exponent)).to(positions.device());
    angles.push_back(positions[static_cast<int64_t>(axis)].to(type).unsqueeze(1) * frequency);
  }
  const at::Tensor angle = at::cat(angles, 1);
  const at::Tensor sine = angle.sin().to(at::kFloat), cosine = angle.cos().to(at::kFloat);
  return {at::stack({cosine, cosine}, 2).flatten(1).contiguous(), at::stack({-sine, sine}, 2).flatten(1).contiguous()};
}

at::Tensor join_heads(const std::vector<Stream>& streams, const HeadsShape& shape, const PairRotary& rotary,
                      int64_t rows) {
  const int64_t width = shape.width();
  const auto kinds = static_cast<int64_t>(streams.front().norms.size());
  if (!cpu::fits(streams.front().x)) {
    Tensors parts, places;
    for (const Stream& stream : streams) {
      Tensors columns;
      for (int64_t k = 0; k < kinds; ++k)
        columns.push_back(composed_heads(stream.x.narrow(1, k * width, width), stream.norms[static_cast<size_t>(k)],
                                         stream.rotated[static_cast<size_t>(k)], shape, rotary, stream.to));
      parts.push_back(at::cat(columns, 1));
      places.push_back(stream.to.defined() ? stream.to
                                           : at::arange(stream.x.size(0), stream.x.options().dtype(at::kLong)));
    }
    return join_rows(parts, places);
  }
  at::Tensor joint;
  {
    at::NoGradGuard no_grad;
    joint = at::empty({rows, kinds * width}, streams.front().x.options());
    for (const Stream& stream : streams) cpu::join_heads(stream, shape, rotary, joint);
  }
  Node node{.inputs = {}, .trains = false, .saved = {}, .backward = {}};
  for (const Stream& stream : streams) {
    node.inputs.push_back(stream.x);
    node.saved.push_back(stream.x);
    for (const Norm& norm : stream.norms) node.trains = node.trains || norm.trained();
  }
  std::vector<Stream> kept = streams;
  for (Stream& stream : kept) stream.x.reset();  // comes back as a saved tensor
  node.backward = [streams = std::move(kept), shape, rotary](const Tensors& dy, const Tensors& saved) -> Tensors {
    const at::Tensor gradient = dy[0].contiguous();
    Tensors dx;
    for (size_t i = 0; i < streams.size(); ++i) {
      Stream stream = streams[i];
      stream.x = saved[i];
      dx.push_back(cpu::join_heads_backward(gradient, stream, shape, rotary));
    }
    return dx;
  };
  return record(joint, std::move(node));
}

Tensors split_rows(const at::Tensor& x, const Tensors& of) {
  Tensors parts;
  {
    at::NoGradGuard no_grad;
    for (const at::Tensor& rows : of) parts.push_back(x.index_select(0, rows));
  }
  return record(
      std::move(parts),
      {.inputs = {x},
       .trains = false,
       .saved = {},
       .backward = [of, n = x.size(0)](const Tensors& dy, const Tensors&) -> Tensors {
         at::Tensor any;
         bool all = true;
         for (const at::Tensor& part : dy) {
           if (part.defined()) any = part;
           all = all && part.defined();
         }
         at::Tensor dx = all ? at::empty({n, any.size(1)}, any.options()) : at::zeros({n, any.size(1)}, any.options());
         for (size_t i = 0; i < of.size(); ++i)
           if (dy[i].defined()) dx.index_copy_(0, of[i], dy[i]);
         return {dx};
       }});
}

at::Tensor join_rows(const Tensors& parts, const Tensors& of) {
  int64_t n = 0;
  for (const at::Tensor& rows : of) n += rows.size(0);
  at::Tensor joint;
  {
    at::NoGradGuard no_grad;
    joint = at::empty({n, parts.front().size(1)}, parts.front().options());
    for (size_t i = 0; i < of.size(); ++i) joint.index_copy_(0, of[i], parts[i]);
  }
  return record(
      joint,
      {.inputs = parts, .trains = false, .saved = {}, .backward = [of](const Tensors& dy, const Tensors&) -> Tensors {
         Tensors dx;
         for (const at::Tensor& rows : of) dx.push_back(dy[0].index_select(0, rows));
         return dx;
       }});
}

}  // namespace lf::nn
