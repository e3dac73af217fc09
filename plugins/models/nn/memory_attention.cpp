#include "nn/memory_attention.h"

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/cross_attention.h"
#include "nn/heads.h"

namespace lf::nn {
namespace {

int64_t key_width(const AttentionShape& shape) { return shape.kv_heads * shape.head_size; }

at::Tensor own_keys(const at::Tensor& qkv, const AttentionShape& shape) {
  return qkv.narrow(1, shape.query_width(), 2 * key_width(shape));
}

// Keys and values of the joint rows.
at::Tensor joint_keys(const at::Tensor& qkv, const at::Tensor& memory, const AttentionShape& shape,
                      const MemoryLayout& layout) {
  const at::Tensor own = own_keys(qkv, shape);
  if (!memory.defined()) return own.contiguous();
  return at::empty({layout.joint.rows(), own.size(1)}, qkv.options())
      .index_copy_(0, layout.memory_places, memory)
      .index_copy_(0, layout.own_places, own);
}

cpu::AttentionRows rows_of(const at::Tensor& qkv, const at::Tensor& keys, const AttentionShape& shape) {
  const int64_t width = key_width(shape);
  return {qkv.narrow(1, 0, shape.query_width()), keys.narrow(1, 0, width), keys.narrow(1, width, width)};
}

// Any device, any type, by LibTorch's autograd.
at::Tensor composed(const at::Tensor& qkv, const at::Tensor& memory, const AttentionShape& shape,
                    const MemoryLayout& layout) {
  const auto rotated = [&](const at::Tensor& x, const RotaryTable& table) {
    return table.present() ? rotate(x.unflatten(1, {-1, shape.head_size}), table).flatten(1) : x;
  };
  const at::Tensor own = own_keys(qkv, shape).contiguous();
  const at::Tensor joint = memory.defined() ? join_rows({memory, own}, {layout.memory_places, layout.own_places}) : own;
  const int64_t width = key_width(shape);
  const at::Tensor keys =
      at::cat({rotated(joint.narrow(1, 0, width), layout.joint_rotary), joint.narrow(1, width, width)}, 1);
  return cross_attention(rotated(qkv.narrow(1, 0, shape.query_width()), layout.own_rotary).contiguous(), keys, shape,
                         layout.own, layout.joint, {});
}

}  // namespace

MemoryLayout memory_layout(const std::vector<int64_t>& memory_rows, const std::vector<int64_t>& own_rows,
                           const RotarySpec& rotary, at::Device device) {
  TORCH_CHECK(memory_rows.size() == own_rows.size(), "memory of ", memory_rows.size(), " segments for ",
              own_rows.size());
  MemoryLayout layout;
  std::vector<int64_t> memory, own, positions;
  for (size_t s = 0; s < own_rows.size(); ++s) {
    const int64_t begin = layout.joint.rows(), middle = begin + memory_rows[s], end = middle + own_rows[s];
    for (int64_t row = begin; row < end; ++row) {
      (row < middle ? memory : own).push_back(row);
      positions.push_back(row - begin);
    }
    layout.own.starts.push_back(layout.own.rows() + own_rows[s]);
    layout.joint.starts.push_back(end);
  }
  layout.memory_places = at::tensor(memory, at::kLong).to(device);
  layout.own_places = at::tensor(own, at::kLong).to(device);
  layout.joint_rotary = rotary_table(rotary, at::tensor(positions, at::kLong).unsqueeze(0).to(device));
  layout.own_rotary = {layout.joint_rotary.cosine.index_select(0, layout.own_places),
                       layout.joint_rotary.sine.index_select(0, layout.own_places)};
  return layout;
}

at::Tensor memory_attention(const at::Tensor& qkv, const at::Tensor& memory, const AttentionShape& shape,
                            const MemoryLayout& layout) {
  const int64_t n_memory = memory.defined() ? memory.size(0) : 0;
  TORCH_CHECK(layout.own.rows() == qkv.size(0) && layout.joint.rows() == qkv.size(0) + n_memory, "a layout of ",
              layout.own.rows(), " own and ", layout.joint.rows(), " joint rows; there are ", qkv.size(0), " and ",
              n_memory, " kept ones");
  if (!cpu::fits(qkv) || (memory.defined() && !cpu::fits(memory))) return composed(qkv, memory, shape, layout);
  cpu::AttentionForward forward;
  {
    at::NoGradGuard no_grad;
    forward = cpu::attention(rows_of(qkv, joint_keys(qkv, memory, shape, layout), shape), shape, {},
                             {layout.own_rotary, layout.own}, {layout.joint_rotary, layout.joint});
  }
  const bool wants_memory = memory.defined() && memory.requires_grad();
  return record(forward.out,
                {.inputs = {qkv, memory},
                 .saved = {qkv, memory, forward.out, forward.log_sum},
                 .backward = [shape, layout, wants_memory](const Tensors& dy, const Tensors& saved) -> Tensors {
                   const at::Tensor &qkv = saved[0], &memory = saved[1];
                   const at::Tensor keys = joint_keys(qkv, memory, shape, layout);
                   const at::Tensor dqkv = at::empty_like(qkv), dkeys = at::empty_like(keys);
                   cpu::attention_backward(dy[0], rows_of(qkv, keys, shape), {saved[2], saved[3]}, shape, {},
                                           {layout.own_rotary, layout.own}, {layout.joint_rotary, layout.joint},
                                           rows_of(dqkv, dkeys, shape));
                   own_keys(dqkv, shape).copy_(dkeys.index_select(0, layout.own_places));
                   return {dqkv, wants_memory ? dkeys.index_select(0, layout.memory_places) : at::Tensor()};
                 }});
}

}  // namespace lf::nn
