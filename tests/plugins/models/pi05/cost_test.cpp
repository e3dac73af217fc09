// Products counted by hand: of weights [in, out] 2 · rows · in · out, of attention two of 2 · pairs · width.
#include "pi05/cost.h"

#include <gtest/gtest.h>

#include "plugins/models/pi05/policy_case.h"

namespace lf::pi05 {
namespace {

// Tower 24 wide, 36 between, 16 patches of 7 x 7 x 3; prefix 32 and 40, expert 24 and 32; 8 heads of 8, one of keys;
// chunks of 5 actions of 8 numbers; 2 layers each.
struct Costs {
  Pi05Config config = parse_config(test::read_file(test::reference("pi05-tiny") + "/config.json"));
  family::Features features = features_of(std::vector<SampleSize>{{2, 7, 4}}, config);

  void expect(uint32_t component, uint32_t unit, double linear, double attention) const {
    const lf_cost cost = cost_of(config, component, unit, features[component]);
    EXPECT_DOUBLE_EQ(cost.forward_flops, linear + attention) << component << ", unit " << unit;
    EXPECT_DOUBLE_EQ(cost.weight_flops, linear) << component << ", unit " << unit;
    EXPECT_DOUBLE_EQ(cost.input_flops, (unit > 0 ? linear : 0) + 2 * attention) << component << ", unit " << unit;
  }
};

TEST(Pi05Cost, features_count_what_looks_at_what) {
  const Costs costs;
  EXPECT_EQ(costs.features[kVision], (std::vector<double>{16, 16 * 16, 16, 16 * 16}));
  EXPECT_EQ(costs.features[kLanguage], (std::vector<double>{39, 39 * 39}));
  EXPECT_EQ(costs.features[kAction], (std::vector<double>{44, 4, 5, 5 * (39 + 5), 1}));
}

TEST(Pi05Cost, of_the_tower_adds_up) {
  const Costs costs;
  costs.expect(kVision, 0, 2 * 32.0 * 147 * 24, 0);
  costs.expect(kVision, 1, 2 * 32.0 * (4 * 24 * 24 + 2 * 24 * 36), 2 * 2 * 2 * 256.0 * 24);
  costs.expect(kVision, 3, 2 * 32.0 * 24 * 32, 0);
}

TEST(Pi05Cost, of_the_prefix_adds_up_and_of_its_last_layer_only_keys_and_values_count) {
  const Costs costs;
  costs.expect(kLanguage, 0, 0, 0);
  costs.expect(kLanguage, 1, 2 * 39.0 * (32 * 64 + 2 * 32 * 8 + 64 * 32 + 3 * 32 * 40), 2 * 2 * 39.0 * 39 * 64);
  costs.expect(kLanguage, 2, 2 * 39.0 * 2 * 32 * 8, 0);
}

TEST(Pi05Cost, of_the_expert_adds_up_with_the_vectors_that_its_norms_take_from_the_time) {
  const Costs costs;
  costs.expect(kAction, 0, 2 * 5.0 * 8 * 24 + 2 * 2.0 * 24 * 24, 0);
  costs.expect(kAction, 1, 2 * 5.0 * (24 * 64 + 2 * 24 * 8 + 64 * 24 + 3 * 24 * 32) + 2 * 2.0 * 24 * 3 * 24,
               2 * 2 * 5.0 * 44 * 64);
  costs.expect(kAction, 3, 2 * 5.0 * 24 * 8 + 2 * 24.0 * 3 * 24, 0);
}

}  // namespace
}  // namespace lf::pi05
