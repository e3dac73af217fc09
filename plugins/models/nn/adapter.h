// Low-rank adapters of linear maps (arXiv:2106.09685, section 4.1; dropout as Hugging Face peft has it):
//   y = x Wᵀ + b + scale · drop(x) Aᵀ Bᵀ
// on all columns of y, or on those of one part of a fused map. Nothing of them is kept from forward to backward but
// what the map keeps anyway, x.
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

// What they add to y: f32 (f64) [N, columns]. x [N, in]. Without a graph.
at::Tensor adapter_rows(const Adapters& adapters, const at::Tensor& x, int64_t columns);
// Adds the gradients of A and B.
void add_adapter_gradients(const Adapters& adapters, const at::Tensor& dy, const at::Tensor& x);
// What flows back to x through them: f32 (f64) [N, in].
at::Tensor adapter_input_gradient(const Adapters& adapters, const at::Tensor& dy);

// 0 with probability `share`, else 1 / (1 - share): f32 [rows, columns] on the host. Element i depends on (key, i) and
// share alone: the same bits on every machine and with any number of threads.
at::Tensor dropout_mask(uint64_t key, int64_t rows, int64_t columns, double share);

}  // namespace lf::nn
