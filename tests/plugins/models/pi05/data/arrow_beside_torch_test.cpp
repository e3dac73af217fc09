// A policy's plugin has both in its process.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "pi05/data/parquet_file.h"

namespace lf::robot {
namespace {

const std::string kData = LF_SOURCE_DIR "/tests/fixtures/robot/pusht/data/chunk-000/file-000.parquet";

TEST(ArrowBesideTorch, each_computes_and_throws_as_it_does_alone) {
  const at::Tensor left = at::arange(4000, at::kFloat).reshape({40, 100}), right = left.t();
  const at::Tensor before = at::matmul(left, right);
  std::vector<float> first;
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> actions = ParquetFile(kData).floats("action").values;
    ASSERT_EQ(actions.size(), 72u * 2);
    if (i == 0) first = actions;
    EXPECT_EQ(actions, first);
    EXPECT_TRUE(at::equal(at::matmul(left, right), before));
    EXPECT_THROW(at::matmul(left, left), c10::Error);
    EXPECT_THROW(ParquetFile(kData).floats("none"), sdk::Failure);
    EXPECT_THROW(ParquetFile(LF_SOURCE_DIR "/README.md"), sdk::Failure);
  }
}

}  // namespace
}  // namespace lf::robot
