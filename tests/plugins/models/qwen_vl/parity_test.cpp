// Every Qwen-VL reference fixture, in f32: logits, losses and every gradient against transformers.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plugins/models/qwen_vl/abi_model.h"
#include "plugins/models/qwen_vl/columns.h"

namespace lf::test {
namespace {

// Tolerances of the fixtures' own README: the reference's noise is 3e-6 to 8e-6 in logits.
constexpr double kLogits = 2e-5, kLoss = 1e-5, kGradientShare = 1e-4, kNormShare = 1e-6;

struct Case {
  std::string directory, name, config;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.directory << "/" << c.name << " by " << c.config; }

std::string root() { return std::string(LF_BUILD_DIR) + "/fixtures/references/"; }

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const char* family : {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"})
    for (const char* variant : {"tiny", "odd"})
      for (const char* name : {"mixed", "text", "packed", "mixed_aux"})
        for (const char* config : {"config.json", "config_hub.json"})
          if (std::string(name) != "mixed_aux" || std::string(family) == "qwen3_vl_moe")
            result.push_back({std::string(family) + "-" + variant, name, config});
  return result;
}

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, logits_losses_and_gradients_equal_the_reference) {
  const Case& c = GetParam();
  const std::string directory = root() + c.directory;
  const auto inputs = read_safetensors(directory + "/" + c.name + "/inputs.safetensors");
  const auto expected = read_safetensors(directory + "/" + c.name + "/expected.safetensors");
  ModelOptions options;
  if (c.name == "mixed_aux") options.options_json = R"({"router_aux_loss": "batch"})";
  AbiModel model(LF_QWEN_VL_PLUGIN, read_file(directory + "/" + c.config), options);
  EXPECT_TRUE(model.warnings().empty()) << model.warnings().front();
  model.load(read_safetensors(directory + "/model.safetensors"));
  model.zero_gradients();

  const Columns columns = make_columns(inputs, {.merge = 2, .one_grid_per_frame = c.directory.starts_with("qwen3")});
  const auto count = static_cast<double>(expected.at("loss_count").integers[0]);
  const StepResult result = model.run(columns, 1 / count, true);

  EXPECT_EQ(result.loss_weight, count);
  EXPECT_NEAR(result.loss_sum / count, expected.at("loss").floats[0], kLoss);
  if (c.name == "mixed_aux") {
    EXPECT_NEAR(result.aux / count, expected.at("aux_loss").floats[0], kLoss);
  }
  const FileTensor& logits = expected.at("logits");
  const int64_t vocabulary = logits.shape.back();
  double worst = 0, worst_loss = 0;
  for (int64_t row = 0; row < columns.rows(); ++row) {
    const int64_t source = columns.source_row[static_cast<size_t>(row)];
    for (int64_t v = 0; v < vocabulary; ++v)
      worst = std::max<double>(worst, std::abs(result.logits[static_cast<size_t>(row * vocabulary + v)] -
                                               logits.floats[static_cast<size_t>(source * vocabulary + v)]));
    worst_loss = std::max<double>(worst_loss, std::abs(result.token_loss[static_cast<size_t>(row)] -
                                                       expected.at("token_loss").floats[static_cast<size_t>(source)]));
  }
  EXPECT_LE(worst, kLogits);
  EXPECT_LE(worst_loss, kLogits);

  double square_sum = 0;
  size_t compared = 0;
  std::vector<std::string> without;
  for (const auto& [name, tensor] : expected)
    if (name.starts_with("grad."))
      for (const float g : tensor.floats) square_sum += static_cast<double>(g) * g;
  for (const auto& [name, gradient] : model.gradients()) {
    const auto found = expected.find("grad." + name);
    if (found == expected.end()) {
      without.push_back(name);
      continue;
    }
    ++compared;
    double largest = 0, difference = 0;
    ASSERT_EQ(gradient.size(), found->second.floats.size()) << name;
    for (size_t i = 0; i < gradient.size(); ++i) {
      largest = std::max<double>(largest, std::abs(found->second.floats[i]));
      difference = std::max<double>(difference, std::abs(gradient[i] - found->second.floats[i]));
    }
    EXPECT_LE(difference, kGradientShare * largest + kNormShare * std::sqrt(square_sum))
        << name << ", largest " << largest;
  }
  // Every gradient of the reference was compared, and what has none there was never run here.
  EXPECT_EQ(compared, static_cast<size_t>(std::count_if(expected.begin(), expected.end(),
                                                        [](const auto& e) { return e.first.starts_with("grad."); })));
  EXPECT_EQ(without, model.without_gradient());
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.directory + "_" + info.param.name + (info.param.config == "config.json" ? "" : "_hub");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Qwen, Parity, testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace lf::test
