// AdamW by LibTorch's operators against AdamW in the host's memory, which is held to torch.optim.AdamW beside it.
#include "optimizer/adamw_on_tensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw_on_host.h"

namespace {

using lf::OptimizedParameter;

// The same buffers twice; parameters begin at multiples of 32 elements, as a store lays them, and gaps are zero.
struct Twin {
  std::vector<OptimizedParameter> parameters;
  std::vector<float> master, gradients;
  std::vector<uint16_t> compute;
  at::Tensor there_master, there_gradients, there_compute, m, v;
  bool bf16;

  Twin(const std::vector<int64_t>& sizes, bool with_bf16) : bf16(with_bf16) {
    int64_t offset = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      parameters.push_back(
          {.name = "p" + std::to_string(i), .offset = offset, .elements = sizes[i], .unit = static_cast<uint32_t>(i)});
      offset = (offset + sizes[i] + 31) / 32 * 32;
    }
    master.resize(static_cast<size_t>(offset));
    gradients.resize(master.size());
    if (bf16) compute.resize(master.size());
    fill(master, 1);
    there_master = copy_of(master);
    there_gradients = at::zeros({offset});
    m = at::zeros({offset});
    v = at::zeros({offset});
    if (bf16) there_compute = at::zeros({offset}, at::kBFloat16);
  }

  void fill(std::vector<float>& values, uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const OptimizedParameter& p : parameters)
      for (int64_t i = 0; i < p.elements; ++i)
        values[static_cast<size_t>(p.offset + i)] = normal(random) * std::exp2(static_cast<float>(i % 17) - 12);
  }
  static at::Tensor copy_of(std::vector<float>& values) {
    return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat).clone();
  }
  void set_gradients(uint32_t seed) {
    fill(gradients, seed);
    there_gradients.copy_(copy_of(gradients));
  }
  lf::AdamW on_host(const lf::OptimizerSection& settings) {
    return lf::AdamW({settings, master, gradients, bf16 ? compute.data() : nullptr, parameters, 2});
  }
  lf::AdamW on_tensors(const lf::OptimizerSection& settings) const {
    return lf::AdamW(settings, parameters,
                     lf::adamw_on_tensors({there_master, there_gradients, m, v, there_compute}, ranges_of(parameters)));
  }
  std::vector<uint8_t> all() const { return std::vector<uint8_t>(parameters.size(), 1); }

  void expect_same_bits() const {
    const float* const there = there_master.const_data_ptr<float>();
    for (size_t i = 0; i < master.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(there[i]), std::bit_cast<uint32_t>(master[i]))
          << there[i] << " and " << master[i] << " at " << i << " m " << m[static_cast<int64_t>(i)].item<float>()
          << " v " << v[static_cast<int64_t>(i)].item<float>();
    if (!bf16) return;
    EXPECT_EQ(std::memcmp(compute.data(), there_compute.const_data_ptr(), compute.size() * 2), 0);
  }
};

std::vector<float> read(const lf::FloatRange& range) {
  std::vector<float> values(static_cast<size_t>(range.elements));
  range.read(0, values);
  return values;
}

}  // namespace

TEST(adamw_on_tensors, gives_the_bits_of_the_host_with_groups_clipping_absent_gradients_and_bf16) {
  for (const bool bf16 : {false, true}) {
    Twin twin({70'001, 32, 5, 4096, 9, 333}, bf16);
    twin.parameters[1].decay = twin.parameters[2].decay = false;
    twin.parameters[3].learning_rate_scale = 0.25;
    twin.parameters[4].weight_decay = 0.5;
    twin.parameters[5].sign_step = 1e-3;
    lf::OptimizerSection settings;
    auto host = twin.on_host(settings), there = twin.on_tensors(settings);
    bool clipped = false, whole = false;
    for (uint32_t step = 0; step < 6; ++step) {
      twin.set_gradients(10 + step);
      settings.clip_norm = 1;
      if (step % 2 == 0) {  // small enough to stay as they are
        for (float& g : twin.gradients) g *= 1e-3f;
        twin.there_gradients.copy_(Twin::copy_of(twin.gradients));
      }
      auto present = twin.all();
      present[step % 3] = step < 3 ? 0 : 1;
      const lf::StepStats ours = host.step(1e-3 * (step + 1), 1.0, present);
      const lf::StepStats theirs = there.step(1e-3 * (step + 1), 1.0, present);
      EXPECT_NEAR(theirs.grad_norm, ours.grad_norm, 1e-13 * ours.grad_norm);  // f64, summed in another order
      EXPECT_EQ(theirs.clipped, ours.clipped);
      (ours.clipped ? clipped : whole) = true;
      twin.expect_same_bits();
    }
    EXPECT_TRUE(clipped && whole) << "the steps cover both";
    const auto ours = host.state(), theirs = there.state();
    for (size_t p = 0; p < ours.size(); ++p) {
      EXPECT_EQ(*theirs[p].step, *ours[p].step);
      EXPECT_EQ(read(theirs[p].m), read(ours[p].m)) << p;
      EXPECT_EQ(read(theirs[p].v), read(ours[p].v)) << p;
    }
  }
}

TEST(adamw_on_tensors, a_parameter_larger_than_a_chunk_is_updated_to_its_end) {
  Twin twin({(4 << 20) + 77, 40}, false);
  lf::OptimizerSection settings;
  auto host = twin.on_host(settings), there = twin.on_tensors(settings);
  twin.set_gradients(3);
  const double ours = host.step(1e-2, 1.0, twin.all()).grad_norm, theirs = there.step(1e-2, 1.0, twin.all()).grad_norm;
  EXPECT_NEAR(theirs, ours, 1e-13 * ours);
  twin.expect_same_bits();
}

TEST(adamw_on_tensors, padding_stays_zero) {
  Twin twin({5, 6, 7}, false);
  auto there = twin.on_tensors({});
  for (uint32_t step = 0; step < 3; ++step) {
    twin.set_gradients(step);
    there.step(1e-2, 1.0, twin.all());
  }
  for (const auto& [from, to] : {std::pair{5, 32}, std::pair{38, 64}, std::pair{71, 96}})
    EXPECT_FALSE(twin.there_master.slice(0, from, to).any().item<bool>()) << from;
}

TEST(adamw_on_tensors, a_gradient_that_is_not_finite_skips_the_step_and_names_its_parameter) {
  Twin twin({40, 50}, false);
  lf::OptimizerSection settings;
  settings.on_nonfinite = "stop";
  auto there = twin.on_tensors(settings);
  const at::Tensor before = twin.there_master.clone();
  twin.there_gradients[64 + 3] = std::nanf("");
  try {
    there.step(1e-3, 1.0, twin.all());
    ADD_FAILURE() << "did not stop";
  } catch (const lf::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the gradient of p1"));
  }
  settings.on_nonfinite = "skip";
  EXPECT_TRUE(twin.on_tensors(settings).step(1e-3, 1.0, twin.all()).skipped);
  EXPECT_TRUE(at::equal(twin.there_master, before));
  twin.there_gradients.zero_();
  EXPECT_TRUE(twin.on_tensors(settings).step(1e-3, std::nan(""), twin.all()).skipped);
  EXPECT_TRUE(at::equal(twin.there_master, before));
}

TEST(adamw_on_tensors, a_state_that_moved_from_the_host_goes_on_with_its_bits) {
  Twin twin({5000, 100}, true);
  lf::OptimizerSection settings;
  auto host = twin.on_host(settings), there = twin.on_tensors(settings);
  for (uint32_t step = 0; step < 2; ++step) {
    twin.set_gradients(step);
    host.step(1e-3, 1.0, twin.all());
  }
  twin.there_master.copy_(Twin::copy_of(twin.master));
  const auto from = host.state(), to = there.state();
  for (size_t p = 0; p < from.size(); ++p) {
    const std::vector<float> m = read(from[p].m), v = read(from[p].v);
    const int64_t half = to[p].m.elements / 2;  // in two pieces, as a checkpoint is read
    for (const auto& [range, values] : {std::pair(&to[p].m, &m), std::pair(&to[p].v, &v)}) {
      range->write(0, std::span(*values).first(static_cast<size_t>(half)));
      range->write(half, std::span(*values).subspan(static_cast<size_t>(half)));
    }
    *to[p].step = *from[p].step;
  }
  twin.set_gradients(9);
  host.step(1e-3, 1.0, twin.all());
  there.step(1e-3, 1.0, twin.all());
  twin.expect_same_bits();
}
