// Low-rank adapters of linear maps (arXiv:2106.09685, section 4.1; dropout as Hugging Face peft has it):
//   y = x Wᵀ + b + scale · drop(x) Aᵀ Bᵀ
// on all columns of y, or on those of one part of a fused map. Nothing of them is kept from forward to backward but
// what the map keeps anyway, x. A table [V, C] whose rows are looked up is such a map of C columns to V rows: its row i
// gets scale · B[i] A. A stack of experts' maps has one adapter, whose A and B are the experts' own ones beside each
// other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/parameter.h"

namespace lf::nn {

// What draws come from: set by who runs a micro-batch, before forward and again before backward.
struct Draws {
  uint64_t key = 0;
};

struct Adapter {
  Parameter down;            // A [r, in]
  Parameter up;              // B [columns, r]
  int64_t first_column = 0;  // of y
  double scale = 1, dropout = 0;
  uint64_t id = 0;  // sets its draws apart from other adapters'
};

struct Adapters {
  std::vector<Adapter> each;
  std::shared_ptr<const Draws> draws;

  bool trained() const;
};
// Whether a parameter has adapters that are trained.
bool adapters_trained(const Parameter& parameter);

// What they add to y: f32 (f64) [N, columns]. x [N, in]. Without a graph.
at::Tensor adapter_rows(const Adapters& adapters, const at::Tensor& x, int64_t columns);
// Adds the gradients of A and B.
void add_adapter_gradients(const Adapters& adapters, const at::Tensor& dy, const at::Tensor& x);
// What flows back to x through them: f32 (f64) [N, in].
at::Tensor adapter_input_gradient(const Adapters& adapters, const at::Tensor& dy);

// What a table's adapters add to its rows `ids` (i64 [N]): f32 (f64) [N, C]. Without a graph, and without dropout, as
// peft has it.
at::Tensor adapter_table_rows(const Adapters& adapters, const at::Tensor& ids);
// Adds the gradients of A and B; dy [N, C]. padding_id >= 0: that row of B gets none.
void add_adapter_table_gradients(const Adapters& adapters, const at::Tensor& ids, const at::Tensor& dy,
                                 int64_t padding_id);

// The adapters of a map that rows x go through a chunk at a time: the same numbers, dropout among them, whatever the
// chunks. Of a parameter without adapters it does nothing.
class ChunkedAdapters {
 public:
  ChunkedAdapters(const Parameter& parameter, const at::Tensor& x);  // x [N, in], kept

  // y += what they add to rows [begin, begin + y.size(0)); y f32 (f64).
  void add_to(const at::Tensor& y, int64_t begin) const;
  // Adds the gradients of A and B from these rows; what flows back to them through the adapters, f32 (f64), or
  // undefined.
  at::Tensor backward(const at::Tensor& dy, int64_t begin) const;

 private:
  std::shared_ptr<const Adapters> adapters_;
  std::vector<at::Tensor> masks_, inputs_, narrow_;  // by adapter: [N, in] or undefined, [N, in], [N, r]
};

// Of a stack of E maps [E, in, out] of y = x W_e: A [E r, in] holds the experts' rows one after the other, B [out, r E]
// has expert e's columns at e, e + E, ... (peft's ParamWrapper). No dropout.
struct ExpertAdapter {
  ExpertAdapter(const Parameter& parameter, int64_t experts) : adapters(parameter.adapters), n(experts) {}

  bool defined() const { return adapters != nullptr; }
  // What it adds to x W_e: f32 (f64) [N, out].
  at::Tensor rows(int64_t expert, const at::Tensor& x) const;
  // What flows back through it from dy [N, out]: f32 (f64) [N, in].
  at::Tensor input_gradient(int64_t expert, const at::Tensor& dy) const;
  // Adds the gradients of its A and B.
  void add_gradients(int64_t expert, const at::Tensor& dy, const at::Tensor& x) const;

  std::shared_ptr<const Adapters> adapters;
  int64_t n;

 private:
  const Adapter& only() const { return adapters->each.front(); }
  at::Tensor down(const at::Tensor& whole, int64_t expert) const;  // [r, in]
  at::Tensor up(const at::Tensor& whole, int64_t expert) const;    // [out, r]
};

// 0 with probability `share`, else 1 / (1 - share): f32 [rows, columns] on the host. Element i depends on (key, i) and
// share alone: the same bits on every machine and with any number of threads.
at::Tensor dropout_mask(uint64_t key, int64_t rows, int64_t columns, double share);

}  // namespace lf::nn
