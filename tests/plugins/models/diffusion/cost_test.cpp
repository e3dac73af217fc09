// Products counted by hand: of weights [in, out] 2 · rows · in · out, of attention two of 2 · pairs · width.
#include "diffusion/cost.h"

#include <gtest/gtest.h>

#include "plugins/models/qwen_vl/safetensors_file.h"

namespace lf::diffusion {
namespace {

constexpr double kImage = 6, kText = 3, kRows = 9, kWide = 24;  // width 24, and 4 times that between

DiffusionConfig recorded_config(const std::string& name) {
  return parse_config(test::read_file(std::string(LF_REFERENCES) + "/" + name + "/config.json"));
}

std::vector<double> atom(const DiffusionConfig& config) {
  PackedSample sample;
  sample.image_rows = 6;
  sample.text_rows = 3;
  sample.times = {500};
  return features_of({&sample, 1}, config);
}

void expect_cost(const DiffusionConfig& config, uint32_t unit, double linear, double attention) {
  const lf_cost cost = cost_of(config, unit, atom(config), 2);
  EXPECT_DOUBLE_EQ(cost.forward_flops, linear + attention) << "unit " << unit;
  EXPECT_DOUBLE_EQ(cost.weight_flops, linear) << "unit " << unit;
  EXPECT_DOUBLE_EQ(cost.input_flops, unit == 0 ? 0 : linear + 2 * attention) << "unit " << unit;
}

const double kTime = 2 * (256 * kWide + kWide * kWide);
const double kJoint = 2 * 2 * kRows * kRows * kWide;
// qkv, out, up, down of a row; the six vectors of each stream.
const double kRow = 2 * kWide * (4 * kWide + 2 * 96), kModulations = 2 * 2 * kWide * 6 * kWide;

TEST(DiffusionCost, of_flux_adds_up) {
  const DiffusionConfig config =
      recorded_config("flux-tiny");  // 12 columns, text 18, pooled 10, guidance; 2 + 2 layers
  expect_cost(config, 0, 2 * kWide * (kImage * 12 + kText * 18) + 2 * kTime + 2 * (10 * kWide + kWide * kWide), 0);
  for (const uint32_t unit : {1u, 2u}) expect_cost(config, unit, kRows * kRow + kModulations, kJoint);
  const double one_stream = 2 * kRows * (kWide * (3 * kWide + 96) + (kWide + 96) * kWide) + 2 * kWide * 3 * kWide;
  for (const uint32_t unit : {3u, 4u}) expect_cost(config, unit, one_stream, kJoint);
  expect_cost(config, 5, 2 * kWide * 2 * kWide + 2 * kImage * kWide * 12, 0);
}

TEST(DiffusionCost, of_qwen_image_adds_up_and_of_the_last_layers_text_only_qkv_counts) {
  const DiffusionConfig config = recorded_config("qwen_image-tiny");  // 12 columns in and out, text 18; 2 layers
  expect_cost(config, 0, 2 * kWide * (kImage * 12 + kText * 18) + kTime, 0);
  expect_cost(config, 1, kRows * kRow + kModulations, kJoint);
  expect_cost(config, 2, kImage * kRow + kText * 2 * kWide * 3 * kWide + kModulations, kJoint);
  expect_cost(config, 3, 2 * kWide * 2 * kWide + 2 * kImage * kWide * 12, 0);
}

TEST(DiffusionCost, of_wan_adds_up) {
  const DiffusionConfig config =
      recorded_config("wan-tiny");  // 9 and 4 channels of 2 x 2, text 20, time 16, 40 between
  const double time = 2 * (16 * kWide + kWide * kWide + kWide * 6 * kWide);
  expect_cost(config, 0, 2 * kImage * 36 * kWide + 2 * kText * (20 * kWide + kWide * kWide) + time, 0);
  const double self = 2 * kImage * 4 * kWide * kWide, cross = 2 * (kImage * 2 + kText * 2) * kWide * kWide,
               between = 2 * kImage * 2 * kWide * 40;
  expect_cost(config, 1, self + cross + between, 2 * 2 * (kImage * kImage + kImage * kText) * kWide);
  expect_cost(config, 3, 2 * kImage * kWide * 16, 0);
}

TEST(DiffusionCost, of_samples_is_the_sum_of_theirs) {
  for (const char* name : {"flux-tiny", "qwen_image-tiny", "wan-tiny"}) {
    const DiffusionConfig config = recorded_config(name);
    const std::vector<double> one = atom(config);
    std::vector<double> two = one;
    two.insert(two.end(), one.begin(), one.end());
    for (uint32_t unit = 0; unit < 4; ++unit) {
      const lf_cost alone = cost_of(config, unit, one, 2), both = cost_of(config, unit, two, 2);
      EXPECT_DOUBLE_EQ(both.forward_flops, 2 * alone.forward_flops);
      EXPECT_EQ(both.saved_bytes, 2 * alone.saved_bytes);
    }
  }
}

}  // namespace
}  // namespace lf::diffusion
