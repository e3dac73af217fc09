// The groups of ranks inside a layer, as blocks see them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lf::nn {

// A group of more than one rank. Every rank of it makes the same sequence of calls, zero rows included. Calls block
// until the result is there. [step]
class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t size() const = 0;
  virtual int64_t rank() const = 0;
  // [own, ...] -> [sum of rows, ...], by rank. rows[r] is what rank r brings.
  virtual at::Tensor all_gather(const at::Tensor& own, at::IntArrayRef rows) = 0;
  // [sum of rows, ...] -> [rows[rank], ...]: own rows, summed over ranks in rank order.
  virtual at::Tensor reduce_scatter(const at::Tensor& all, at::IntArrayRef rows) = 0;
  // Rows by destination -> rows by source.
  virtual at::Tensor all_to_all(const at::Tensor& rows, at::IntArrayRef send_rows, at::IntArrayRef receive_rows) = 0;
  virtual at::Tensor all_reduce(const at::Tensor& value) = 0;
};

// Null: this rank alone. Given to constructors; blocks never ask how many ranks a job has.
struct ParallelContext {
  std::shared_ptr<Group> tp, cp, ep;
};

// The four operations that blocks are built from. Each is differentiable, and returns its input itself, without a node,
// where the group is null (docs: nn/README.md, "ranks").
//   gather_rows    forward all-gather,      backward reduce-scatter
//   scatter_sum    forward reduce-scatter,  backward all-gather
//   exchange_rows  forward all-to-all,      backward the inverse
//   sum_stat       forward all-reduce,      backward all-reduce
at::Tensor gather_rows(const at::Tensor& own, at::IntArrayRef rows, const std::shared_ptr<Group>& group);
at::Tensor scatter_sum(const at::Tensor& all, at::IntArrayRef rows, const std::shared_ptr<Group>& group);
at::Tensor exchange_rows(const at::Tensor& rows, at::IntArrayRef send_rows, at::IntArrayRef receive_rows,
                         const std::shared_ptr<Group>& group);
at::Tensor sum_stat(const at::Tensor& value, const std::shared_ptr<Group>& group);

}  // namespace lf::nn
