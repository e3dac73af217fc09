// Blocks with a hand-written backward: compute without a graph, then record one node.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lf::nn {

using Tensors = std::vector<at::Tensor>;

// Gradients of the outputs (undefined where nothing flowed back) and the saved tensors in; one gradient per input out
// (undefined where an input needs none). Runs at most once. Gradients of parameters are not returned: the block adds
// them to the parameter's bound buffer (parameter.h). Must not change what it is given, but for what the
// caller of the block gave up in its words.
using Backward = std::function<Tensors(const Tensors& output_gradients, const Tensors& saved)>;

struct Node {
  Tensors inputs;       // what gradients flow to; may be undefined
  bool trains = false;  // the block has a parameter with a gradient buffer
  Tensors saved;        // kept until backward, through autograd's saved variables, so that their hooks see them
  Backward backward;
};

// `outputs`, computed with gradients off and no alias of an input, as results of one node. Where gradients are off, or
// nothing upstream and nothing in the block is trained, no node is made and nothing is kept.
Tensors record(Tensors outputs, Node node);
at::Tensor record(const at::Tensor& output, Node node);

// True where a node would be made: blocks then keep what backward needs.
bool records(const Node& node);

}  // namespace lf::nn
