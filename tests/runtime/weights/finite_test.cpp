#include "weights/finite.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lf {
namespace {

using testing::HasSubstr;

TEST(Finite, the_first_nan_or_infinity_is_found_wherever_it_stands) {
  std::vector<float> values(10'000);
  std::mt19937 dice(5);
  for (float& value : values) value = std::normal_distribution<float>()(dice);
  values[17] = std::numeric_limits<float>::max();
  values[18] = std::numeric_limits<float>::denorm_min();
  EXPECT_FALSE(first_not_finite(values));
  EXPECT_FALSE(first_not_finite({}));
  for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY})
    for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{9999}}) {
      std::vector<float> spoilt = values;
      spoilt[at] = spoilt[9999] = bad;
      EXPECT_EQ(first_not_finite(spoilt), static_cast<int64_t>(at));
    }
}

TEST(Finite, the_refusal_names_the_tensor_of_the_file_in_which_the_value_stands) {
  ParameterInfo parameter;  // two file tensors, one above the other
  parameter.name = "qkv.weight";
  parameter.shape = {4, 3};
  parameter.join_axis = 0;
  for (const char* name : {"q.weight", "k.weight"}) {
    ParameterPart part;
    part.name = name;
    part.shape = {2, 3};
    part.piece = 1;
    parameter.parts.push_back(part);
  }
  std::vector<float> values(12, 1.0f);
  EXPECT_NO_THROW(require_finite("model", parameter, values));
  values[7] = INFINITY;
  try {
    require_finite("model", parameter, values);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kBadData);
    EXPECT_THAT(error.what(), HasSubstr("model: tensor k.weight: expected finite values, got inf"));
  }
}

}  // namespace
}  // namespace lf
