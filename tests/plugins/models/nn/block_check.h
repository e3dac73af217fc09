// A block against the same formula written with LibTorch's operators and its autograd, in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn::test {

// What rounding alone may do: to the largest element. bf16 has 8 bits, and a block rounds a few times.
inline double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-10 : type == at::kFloat ? 2e-5 : 3e-2; }

inline at::Tensor random(at::IntArrayRef shape, uint64_t seed, double deviation = 1) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::kDouble) * deviation;
}

inline double difference(const at::Tensor& got, const at::Tensor& expected) {
  if (expected.numel() == 0) return 0;
  const double largest = std::max(expected.abs().max().item<double>(), 1e-30);
  return (got.to(at::kDouble) - expected).abs().max().item<double>() / largest;
}

// inputs and parameters in f64; both functions map them to one tensor. The block gets them rounded to `type`, its
// parameters with gradients in f32 (f64 for f64) that hold 1 already: a block adds.
struct Check {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor(const Tensors& inputs, const std::vector<Parameter>& parameters)> block;
  std::function<at::Tensor(const Tensors& inputs, const Tensors& parameters)> formula;
};

inline void check(const Check& what, at::ScalarType type, const std::string& name) {
  SCOPED_TRACE(name + " in " + at::toString(type));
  const double allowed = tolerance(type);
  Tensors exact_inputs, exact_parameters, inputs;
  std::vector<Parameter> parameters;
  for (const at::Tensor& t : what.inputs) {
    inputs.push_back(t.to(type).detach().clone().requires_grad_(true));
    exact_inputs.push_back(inputs.back().detach().to(at::kDouble).clone().requires_grad_(true));
  }
  const auto sum_type = type == at::kDouble ? at::kDouble : at::kFloat;
  for (const at::Tensor& t : what.parameters) {
    const at::Tensor value = t.to(type).contiguous().clone();
    parameters.push_back({value, at::ones_like(value, sum_type)});
    exact_parameters.push_back(value.to(at::kDouble).clone().requires_grad_(true));
  }
  const at::Tensor y = what.block(inputs, parameters), expected = what.formula(exact_inputs, exact_parameters);
  ASSERT_EQ(y.sizes(), expected.sizes());
  EXPECT_EQ(y.scalar_type(), y.dim() == 0 ? at::kDouble : type);
  EXPECT_LE(difference(y, expected.detach()), allowed);

  const at::Tensor seed = random(expected.sizes(), 99).to(y.scalar_type());
  torch::autograd::backward({y}, {seed});
  torch::autograd::backward({expected}, {seed.to(at::kDouble)});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& wanted = exact_inputs[i].grad();
    ASSERT_EQ(inputs[i].grad().defined(), wanted.defined()) << "input " << i;
    if (wanted.defined()) {
      EXPECT_LE(difference(inputs[i].grad(), wanted), allowed) << "gradient of input " << i;
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_LE(difference(parameters[i].gradient - 1, exact_parameters[i].grad()), allowed)
        << "gradient of parameter " << i;
}

inline void check_all(const Check& what, const std::string& name) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) check(what, type, name);
}

}  // namespace lf::nn::test
