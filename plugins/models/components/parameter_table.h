// What a component says about its parameters: pure values, without tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lf::components {

enum class Along { kNone, kTensor, kExpert };

// A piece of a parameter as files hold it (lf_part): cut along `axis` in multiples of `piece`.
struct Part {
  std::string name;
  std::vector<int64_t> shape;
  Along along = Along::kNone;
  int64_t axis = 0, piece = 1;
  bool copy = false;  // with more ranks than pieces, ranks share pieces
};

enum class Init { kZeros, kOnes, kNormal };

struct ParameterSpec {
  std::string name;  // published, or the joined one's own
  uint32_t unit = 0;
  std::vector<int64_t> shape;
  std::vector<Part> parts;  // joined along axis 0
  Init init = Init::kNormal;
  double deviation = 0;  // kNormal
  bool decays = true;    // false: norms and biases
  bool expert = false;
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

// A parameter that joins several tensors of files along axis 0.
inline ParameterSpec joined(std::string name, uint32_t unit, std::vector<Part> parts, Init init, double deviation = 0) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.unit = unit;
  spec.shape = parts.front().shape;
  spec.shape[0] = 0;
  for (const Part& part : parts) spec.shape[0] += part.shape[0];
  spec.parts = std::move(parts);
  spec.init = init;
  spec.deviation = deviation;
  spec.decays = init == Init::kNormal;
  return spec;
}

}  // namespace lf::components
