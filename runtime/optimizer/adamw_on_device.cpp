#include "optimizer/adamw_on_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw_on_tensors.h"
#include "optimizer/device_tensors.h"

namespace lf {
namespace {

constexpr double kSame = 1e-6;  // relative: a few roundings of f32, for devices that do not round as IEEE 754 says

uint64_t operators_on_cpu(const Device& device) {
  const nlohmann::json health = nlohmann::json::parse(device.health(), nullptr, false);
  uint64_t calls = 0;
  if (health.is_object() && health.contains("operators_on_cpu"))
    for (const auto& [name, count] : health["operators_on_cpu"].items()) calls += count.get<uint64_t>();
  return calls;
}

// Three updates, of which one clips, one does not and one leaves the second parameter alone.
struct TrialRun {
  static constexpr int64_t kElements = 2048;
  std::vector<OptimizedParameter> parameters{
      {.name = "decayed", .offset = 0, .elements = kElements, .unit = 0},
      {.name = "not decayed", .offset = kElements, .elements = kElements, .unit = 1, .decay = false}};
  std::vector<float> master = numbers(0), gradients, m, v;
  std::vector<uint16_t> compute = std::vector<uint16_t>(master.size());

  static std::vector<float> numbers(int64_t seed) {
    std::vector<float> all;
    for (int64_t i = 0; i < 2 * kElements; ++i)
      all.push_back(static_cast<float>((i * 7919 + seed * 104'729) % 20'011 - 10'005) / 16'384 *
                    std::exp2(static_cast<float>(i % 23 - 16)));
    return all;
  }

  void run(AdamW& optimizer, const std::function<void(int64_t step)>& set_gradients) {
    for (int64_t step = 0; step < 3; ++step) {
      set_gradients(step);
      const std::vector<uint8_t> present{1, static_cast<uint8_t>(step != 1)};
      optimizer.step(1e-3 * static_cast<double>(step + 1), 1.0, present);
    }
    for (const OptimizerState& state : optimizer.state()) {
      const size_t at = m.size(), n = static_cast<size_t>(state.m.elements);
      m.resize(at + n);
      v.resize(at + n);
      state.m.read(0, std::span(m).subspan(at, n));
      state.v.read(0, std::span(v).subspan(at, n));
    }
  }
};

TrialRun on_host() {
  TrialRun run;
  run.gradients.resize(run.master.size());
  AdamW optimizer(OptimizerInputs{.settings = {},
                                  .master = run.master,
                                  .gradients = run.gradients,
                                  .compute_bf16 = run.compute.data(),
                                  .parameters = run.parameters});
  run.run(optimizer, [&](int64_t step) { std::ranges::copy(TrialRun::numbers(step + 1), run.gradients.begin()); });
  return run;
}

TrialRun on(at::Device device) {
  TrialRun run;
  const auto there = [&](std::vector<float>& values) {
    return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat)
        .to(device, at::kFloat, false, /*copy=*/true);
  };
  AdamWTensors tensors;
  tensors.master = there(run.master);
  const auto zeros = [&](at::ScalarType type) {
    return at::zeros({static_cast<int64_t>(run.master.size())}, at::dtype(type).device(device));
  };
  tensors.gradients = zeros(at::kFloat);
  tensors.m = zeros(at::kFloat);
  tensors.v = zeros(at::kFloat);
  tensors.compute = zeros(at::kBFloat16);
  AdamW optimizer({}, run.parameters, adamw_on_tensors(tensors, ranges_of(run.parameters)));
  run.run(optimizer, [&](int64_t step) {
    std::vector<float> values = TrialRun::numbers(step + 1);
    tensors.gradients.copy_(there(values));
  });
  const at::Tensor back = tensors.master.to(at::kCPU), compute = tensors.compute.to(at::kCPU);
  std::memcpy(run.master.data(), back.const_data_ptr(), back.nbytes());
  std::memcpy(run.compute.data(), compute.const_data_ptr(), compute.nbytes());
  return run;
}

double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]}) / std::max(1e-30, std::abs(double{b[i]}));
    if (!(difference <= worst)) worst = difference;  // lets NaN through
  }
  return worst;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::unique_ptr<AdamWMemory> adamw_on_device(const Device& device, const ParameterStore& store,
                                             std::vector<ParameterRange> parameters) {
  const std::optional<at::Device> where = torch_device(device);
  if (!where) fail(Exit::kBug, "optimizer: {} is not known to LibTorch", device.id());
  const int64_t n = store.trained_elements();
  AdamWTensors tensors;
  tensors.master = tensor_over(store.device_master(), n, at::kFloat, *where);
  tensors.gradients = tensor_over(store.device_gradients(), n, at::kFloat, *where);
  if (store.dtype() == LF_DTYPE_BF16) tensors.compute = tensor_over(store.device_values(), n, at::kBFloat16, *where);
  tensors.m = owning_tensor(device, n, *where);
  tensors.v = owning_tensor(device, n, *where);
  return adamw_on_tensors(std::move(tensors), std::move(parameters));
}

AdamWTrial try_adamw_on(const Device& device, bool all) {
  AdamWTrial trial;
  const std::optional<at::Device> where = torch_device(device);
  if (!where) {
    trial.obstacle = fmt::format("the plugin {} offers LibTorch no tensors", device.id());
    return trial;
  }
  try {
    const uint64_t before = operators_on_cpu(device);
    const auto left_to_the_cpu = [&] { return operators_on_cpu(device) > before; };
    at::ones({1}, at::dtype(at::kFloat).device(*where)).mul_(2.0);
    if (left_to_the_cpu() && !all) {
      trial.obstacle = fmt::format("{} leaves LibTorch's operators to the CPU", device.id());
      return trial;
    }
    const TrialRun ours = on(*where), expected = on_host();
    trial.by_the_cpu = left_to_the_cpu();
    const bool same = ours.master == expected.master && ours.m == expected.m && ours.v == expected.v &&
                      ours.compute == expected.compute;
    const double worst = std::max({worst_difference(ours.master, expected.master), worst_difference(ours.m, expected.m),
                                   worst_difference(ours.v, expected.v)});
    trial.seen = fmt::format("an update of {} values there gave {}", expected.master.size(),
                             same ? "the host's bits" : fmt::format("the host's values to {:.1e}", worst));
    if (trial.by_the_cpu) trial.seen += fmt::format(", by operators that {} leaves to the CPU", device.id());
    if (!(worst <= kSame)) trial.obstacle = fmt::format("{}, and more than {:.0e} is no rounding", trial.seen, kSame);
  } catch (const c10::OutOfMemoryError& error) {  // not the operators' fault: no other place is looked for
    fail(Exit::kUnavailable, "device {}: trying AdamW there: {}", device.id(),
         first_line(error.what_without_backtrace()));
  } catch (const c10::AcceleratorError& error) {
    fail(Exit::kUnavailable, "device {}: trying AdamW there: {}", device.id(),
         first_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    trial.obstacle = first_line(error.what_without_backtrace());
  }
  return trial;
}

}  // namespace lf
