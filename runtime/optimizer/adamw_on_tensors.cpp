#include "optimizer/adamw_on_tensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "core/error.h"
#include "optimizer/device_tensors.h"

namespace lf {
namespace {

constexpr int64_t kUpdateChunk = 4 << 20;  // elements at a time: bounds what is held beside the state
constexpr int64_t kPadding = 32;           // less than so much lies between neighbours of a ParameterStore

// Whether square roots of f32 are rounded as IEEE 754 says. MKL's, which LibTorch takes on the CPU, are a last digit
// off in one of 150.
bool roots_are_exact(const at::TensorOptions& options) {
  constexpr int64_t kTried = 4096;
  std::vector<float> values;
  for (int64_t i = 0; i < kTried; ++i) values.push_back(std::ldexp(1.0f + static_cast<float>(i) / kTried, -(i % 40)));
  const at::Tensor roots = at::from_blob(values.data(), {kTried}, at::kFloat).to(options).sqrt().to(at::kCPU);
  return std::equal(values.begin(), values.end(), roots.const_data_ptr<float>(),
                    [](float value, float root) { return std::sqrt(value) == root; });
}

class AdamWOnTensors final : public AdamWMemory {
 public:
  AdamWOnTensors(AdamWTensors tensors, std::vector<ParameterRange> parameters)
      : t_(std::move(tensors)), parameters_(std::move(parameters)) {
    for (const at::Tensor& tensor : {t_.gradients, t_.m, t_.v, t_.compute.defined() ? t_.compute : t_.master})
      if (tensor.dim() != 1 || tensor.numel() != t_.master.numel() || tensor.device() != t_.master.device())
        fail(Exit::kBug, "optimizer: its tensors are not of one length and device");
    on_the_device(t_.master, [&] {
      scratch_ = at::empty({std::min(kUpdateChunk, t_.master.numel())}, t_.master.options());
      exact_roots_ = roots_are_exact(t_.master.options());
    });
  }

  double gradient_norm(std::span<const uint8_t> counts) override {
    double norm = 0;
    on_the_device(t_.master, [&] {
      std::vector<at::Tensor> sums;
      for_runs([&](size_t p) { return counts[p] != 0; }, [](size_t, size_t) { return true; },
               [&](int64_t begin, int64_t end, size_t) { sums.push_back(sum_of_squares_of(begin, end)); });
      if (!sums.empty()) norm = std::sqrt(at::stack(sums).sum().item<double>());
    });
    return norm;
  }

  std::optional<size_t> first_not_finite(std::span<const uint8_t> counts) override {
    std::optional<size_t> first;
    on_the_device(t_.master, [&] {
      for (size_t p = 0; p < parameters_.size() && !first; ++p) {
        const int64_t last = parameters_[p].offset + parameters_[p].elements;
        for (int64_t begin = parameters_[p].offset; counts[p] != 0 && begin < last; begin += kUpdateChunk)
          if (!std::isfinite(sum_of_squares_of(begin, std::min(begin + kUpdateChunk, last)).item<double>())) first = p;
      }
    });
    return first;
  }

  void update(std::span<const ParameterUpdate> updates) override {
    on_the_device(t_.master, [&] {
      for_runs([&](size_t p) { return updates[p].wanted; },
               [&](size_t p, size_t q) { return updates[p] == updates[q]; },
               [&](int64_t begin, int64_t end, size_t p) {
                 if (updates[p].sign_step > 0)
                   step_by_sign(begin, end, updates[p].sign_step);
                 else
                   step(begin, end, updates[p].scalars);
               });
    });
  }

  FloatRange first_moment(size_t parameter) override { return range_of_parameter(t_.m, parameter); }
  FloatRange second_moment(size_t parameter) override { return range_of_parameter(t_.v, parameter); }
  uint64_t bytes() const override { return t_.m.nbytes() + t_.v.nbytes(); }

 private:
  // visit(begin, end, a parameter of it) for each range of wanted neighbours that belong together, in chunks.
  template <typename Wanted, typename Together, typename Visit>
  void for_runs(const Wanted& wanted, const Together& together, const Visit& visit) const {
    for (size_t p = 0; p < parameters_.size();) {
      if (!wanted(p) || parameters_[p].elements == 0) {
        ++p;
        continue;
      }
      const size_t first = p;
      const int64_t begin = parameters_[p].offset;
      int64_t end = begin + parameters_[p].elements;
      for (++p; p < parameters_.size() && wanted(p) && together(first, p); ++p) {
        const int64_t between = parameters_[p].offset - end;
        if (between < 0 || between >= kPadding) break;
        end = parameters_[p].offset + parameters_[p].elements;
      }
      for (int64_t at = begin; at < end; at += kUpdateChunk) visit(at, std::min(at + kUpdateChunk, end), first);
    }
  }

  at::Tensor sum_of_squares_of(int64_t begin, int64_t end) const {
    const at::Tensor wide = t_.gradients.narrow(0, begin, end - begin).to(at::kDouble);
    wide.mul_(wide);
    return wide.sum();
  }

  void step(int64_t begin, int64_t end, const AdamWScalars& s) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, begin, end - begin); };
    const at::Tensor g = part(t_.gradients), p = part(t_.master), m = part(t_.m), v = part(t_.v);
    at::Tensor a = scratch_.narrow(0, 0, end - begin);
    if (s.clip != 1.0f) g.mul_(s.clip);
    at::sub_out(a, g, m);
    m.add_(a.mul_(s.one_minus_beta1));
    at::mul_out(a, g, g);
    v.mul_(s.beta2).add_(a.mul_(s.one_minus_beta2));
    if (exact_roots_)
      at::sqrt_out(a, v);
    else
      a.copy_(v.to(at::kDouble).sqrt_());  // f64 is wide enough that rounding twice is rounding once
    // A tensor of the device's: by a number of the host's, CUDA multiplies with the reciprocal.
    a.div_(on_device(s.root_correction)).add_(s.epsilon);
    at::div_out(a, m, a);
    if (s.keep != 1.0f) p.mul_(s.keep);
    p.sub_(a.mul_(s.step_size));
    if (t_.compute.defined()) part(t_.compute).copy_(p);
  }

  void step_by_sign(int64_t begin, int64_t end, float by) {
    at::Tensor a = scratch_.narrow(0, 0, end - begin);
    const at::Tensor p = t_.master.narrow(0, begin, end - begin);
    at::sign_out(a, t_.gradients.narrow(0, begin, end - begin));
    p.sub_(a.mul_(by));
    if (t_.compute.defined()) t_.compute.narrow(0, begin, end - begin).copy_(p);
  }

  const at::Tensor& on_device(float value) {
    if (!constant_.defined() || constant_value_ != value) {
      constant_ = at::full({}, value, t_.master.options());
      constant_value_ = value;
    }
    return constant_;
  }

  FloatRange range_of_parameter(const at::Tensor& moment, size_t parameter) const {
    return range_of(moment, parameters_[parameter].offset, parameters_[parameter].elements);
  }

  const AdamWTensors t_;
  const std::vector<ParameterRange> parameters_;
  at::Tensor scratch_;
  bool exact_roots_ = false;
  at::Tensor constant_;  // of no dimension
  float constant_value_ = 0;
};

}  // namespace

std::unique_ptr<AdamWMemory> adamw_on_tensors(AdamWTensors tensors, std::vector<ParameterRange> parameters) {
  return std::make_unique<AdamWOnTensors>(std::move(tensors), std::move(parameters));
}

}  // namespace lf
