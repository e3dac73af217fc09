// What a component says about its parameters: pure values, without tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lf::components {

enum class Along { kNone, kTensor, kExpert };

// A piece of a parameter as files hold it (lf_part): cut along `axis` in multiples of `piece`. `shape` is the
// parameter's side, after stacking and transposing.
struct Part {
  std::string name;
  std::vector<int64_t> shape;
  Along along = Along::kNone;
  int64_t axis = 0, piece = 1;
  bool copy = false;        // with more ranks than pieces, ranks share pieces
  bool transposed = false;  // the file's last two axes run the other way round
  int64_t stack = 0;        // > 0: so many file tensors, "{}" in the name being their index, along a new axis 0
};

enum class Init { kZeros, kOnes, kNormal };

struct ParameterSpec {
  std::string name;  // published, or the joined one's own
  uint32_t unit = 0;
  std::vector<int64_t> shape;
  std::vector<Part> parts;  // joined along join_axis
  int64_t join_axis = 0;
  Init init = Init::kNormal;
  double mean = 0, deviation = 0;  // kNormal
  bool decays = true;              // false: norms and biases
  bool expert = false;
  bool buffer = false;   // saved, never trained
  double sign_step = 0;  // > 0: moves by so much against the sign of a count (lf_param.sign_step)
  bool dead = false;     // never gets a gradient
  bool linear = false;  // W of y = x Wᵀ, whose parts can have adapters; with `expert` a stack [E, in, out] of y = x W_e
  bool lookup = false;  // with `linear`: a table whose rows are looked up
  bool logits = false;  // with `linear`: its rows are the vocabulary's logits
  // Shares the values of that parameter of the same component.
  std::optional<uint32_t> tied_to;
};

using ParameterTable = std::vector<ParameterSpec>;  // units ascending

// A parameter that is one tensor in files.
inline ParameterSpec whole(std::string name, uint32_t unit, std::vector<int64_t> shape, Init init,
                           double deviation = 0) {
  ParameterSpec spec;
  spec.parts = {{name, shape}};
  spec.name = std::move(name);
  spec.unit = unit;
  spec.shape = std::move(shape);
  spec.init = init;
  spec.deviation = deviation;
  spec.decays = init == Init::kNormal;
  return spec;
}

// The weight of a linear map, bound by Binding::take_linear.
inline ParameterSpec linear_map(ParameterSpec spec) {
  spec.linear = true;
  return spec;
}

// A parameter that starts with one value everywhere.
inline ParameterSpec constant(std::string name, uint32_t unit, std::vector<int64_t> shape, double value) {
  ParameterSpec spec = whole(std::move(name), unit, std::move(shape), Init::kNormal);
  spec.mean = value;
  spec.decays = false;
  return spec;
}

// A parameter that joins several tensors of files.
inline ParameterSpec joined(std::string name, uint32_t unit, std::vector<Part> parts, Init init, double deviation = 0,
                            int64_t axis = 0) {
  ParameterSpec spec;
  const auto at = static_cast<size_t>(axis);
  spec.name = std::move(name);
  spec.unit = unit;
  spec.join_axis = axis;
  spec.shape = parts.front().shape;
  spec.shape[at] = 0;
  for (const Part& part : parts) spec.shape[at] += part.shape[at];
  spec.parts = std::move(parts);
  spec.init = init;
  spec.deviation = deviation;
  spec.decays = init == Init::kNormal;
  return spec;
}

}  // namespace lf::components
