// The only code that knows units: runs a chain of them for one micro-batch, forward and back.
//
// Each unit runs on detached inputs and leaves one small autograd graph, which backward consumes and frees, in reverse
// order. No graph spans two units, so memory falls unit by unit and a unit's gradients are complete when it is done.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nn/record.h"

namespace lf::nn {

enum class Recompute : uint8_t {
  kNone,   // keep what blocks save
  kInner,  // the same: blocks always rebuild norm outputs and activations (under 3% of the FLOPs), see README.md
  kWhole   // keep the unit's inputs only, and run it again in backward
};

// As in lf.parallel/1: told once per unit and micro-batch, in this order.
enum class UnitEvent : int32_t { kNeedForward = 1, kDoneForward, kNeedBackward, kDoneBackward, kDoneWeights };

// One unit of the chain, for one micro-batch. `run` maps [carried..., edges in...] to [carried..., edges out...]; it
// must give the same bits whenever it is called, and live as long as the chain.
struct Step {
  uint32_t unit = 0;  // what events call it
  Recompute recompute = Recompute::kNone;
  bool trains = false;  // it has a parameter with a gradient buffer
  size_t edges_in = 0, edges_out = 0;
  std::function<Tensors(const Tensors& in)> run;
};

class Chain {
 public:
  using Notify = std::function<void(uint32_t unit, UnitEvent event)>;

  // keep_graph false: nothing is trained here or before; backward is never called and nothing is kept.
  Chain(std::vector<Step> steps, Notify notify, bool keep_graph);

  // in: carried tensors, then the edges that enter, by unit. Undefined is an absent edge. in_needs_gradient: which of
  // them backward shall give gradients for. Returns carried tensors, then the edges that leave, by unit; detached.
  Tensors forward(const Tensors& in, const std::vector<bool>& in_needs_gradient);

  // Gradients of what forward returned, in its order, undefined where nothing flowed back. Returns gradients of
  // forward's `in`, undefined where none was wanted or none flowed. Once.
  Tensors backward(const Tensors& out_gradients);

 private:
  struct Ran {
    Tensors in;   // leaves of the unit's graph
    Tensors out;  // its ends; empty after forward where the unit is recomputed, or keeps no graph
    size_t carried_in = 0;
    bool live = false;
  };
  std::vector<Step> steps_;
  Notify notify_;
  bool keep_graph_;
  size_t carried_in_ = 0, carried_out_ = 0;
  std::vector<Ran> ran_;
};

}  // namespace lf::nn
