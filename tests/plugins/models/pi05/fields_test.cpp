// Samples given as tensors: what is packed, and what is refused.
#include "pi05/fields.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/models/pi05/policy_case.h"

namespace lf::pi05 {
namespace {

using test::PolicyCase;
using testing::HasSubstr;

Pi05Config config() { return parse_config(test::read_file(test::reference("pi05-tiny") + "/config.json")); }
PolicyCase train() { return PolicyCase(test::reference("pi05-tiny")); }

TEST(Fields, become_images_as_rows_of_patches_prompts_without_padding_and_mixed_actions) {
  PolicyCase given = train();
  const Pi05Config c = config();
  const std::vector<PolicySample> samples = read_fields(given.lent(), c);
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].images, 2);
  EXPECT_EQ(samples[1].images, 1);
  EXPECT_EQ(samples[0].tokens.size(), 7u);
  EXPECT_EQ(samples[2].tokens.size(), 1u);
  // Second image of the first sample, patch row 1 and column 2, channel 2, third row and fifth column within the patch.
  const int64_t side = c.image_size / c.patch;
  const int64_t row = c.image_rows() + 1 * side + 2, column = (2 * c.patch + 3) * c.patch + 5;
  const int64_t y = c.patch + 3, x = 2 * c.patch + 5;
  EXPECT_EQ(samples[0].pixels.at(static_cast<size_t>(row * c.patch_columns() + column)),
            given.tensors.at("image.1").floats.at(static_cast<size_t>((2 * c.image_size + y) * c.image_size + x)));
  const float t = given.tensors.at("time").floats[0], noise = given.tensors.at("noise").floats[9],
              action = given.tensors.at("actions").floats[9];
  EXPECT_EQ(samples[0].actions[9], t * noise + (1 - t) * action);
  EXPECT_EQ(samples[0].target[9], noise - action);
}

struct Bad {
  const char* what;
  std::function<void(PolicyCase&)> spoil;
  const char* message;
};

TEST(Fields, that_are_wrong_get_one_error_that_names_them) {
  const std::vector<Bad> all = {
      {"an action that is no number", [](PolicyCase& c) { c.tensors.at("actions").floats[3] = NAN; },
       "field actions: expected finite values, got nan at 3"},
      {"an infinite pixel", [](PolicyCase& c) { c.tensors.at("image.0").floats[0] = INFINITY; },
       "field image.0: expected finite values"},
      {"four channels",
       [](PolicyCase& c) {
         c.tensors.at("image.0").shape = {3, 4, 28, 21};
       },
       "field image.0: expected [3, 3, 28, 28] (-1: any), got [3, 4, 28, 21]"},
      {"another image size",
       [](PolicyCase& c) {
         c.tensors.at("image.1").shape = {3, 3, 14, 56};
       },
       "field image.1"},
      {"no time", [](PolicyCase& c) { c.tensors.erase("time"); }, "field time: expected it to be there"},
      {"no noise", [](PolicyCase& c) { c.tensors.erase("noise"); }, "field noise: expected it to be there"},
      {"no prompt", [](PolicyCase& c) { c.tensors.erase("tokens"); }, "field tokens: expected it to be there"},
      {"a time above 1", [](PolicyCase& c) { c.tensors.at("time").floats[1] = 1.5f; },
       "field time: expected times from 0 to 1, got 1.5"},
      {"a shorter chunk",
       [](PolicyCase& c) {
         c.tensors.at("actions").shape = {3, 4, 10};
       },
       "field actions"},
      {"a mask of another length",
       [](PolicyCase& c) {
         c.tensors.at("token_mask").shape = {7, 3};
       },
       "field token_mask"},
      {"a token outside of the vocabulary", [](PolicyCase& c) { c.tensors.at("tokens").integers[0] = 96; },
       "field tokens: expected ids from 0 to 95, got 96"},
      {"more columns than there are", [](PolicyCase& c) { c.tensors.at("action_dim").integers = {9}; },
       "field action_dim: expected a number from 1 to 8, got 9"},
      {"a name that nobody knows",
       [](PolicyCase& c) {
         c.tensors["state"] = {{1}, {0.5f}, {}};
       },
       "field state: pi05 has no such input"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.what);
    PolicyCase given = train();
    bad.spoil(given);
    try {
      read_fields(given.lent(), config());
      ADD_FAILURE() << "it was taken";
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      EXPECT_THAT(failure.what(), HasSubstr(bad.message));
    }
  }
}

}  // namespace
}  // namespace lf::pi05
