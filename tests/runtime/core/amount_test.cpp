#include "core/amount.h"

#include <gtest/gtest.h>

namespace lf {
namespace {

TEST(Amount, one_is_singular_and_all_else_plural) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "sample"), "0 samples");
  EXPECT_EQ(counted(1879, "sample"), "1879 samples");
  EXPECT_EQ(counted(1.5, "epoch"), "1.5 epochs");
  EXPECT_EQ(counted(1.0, "epoch"), "1 epoch");
  EXPECT_EQ(counted(2, "micro-batch", "micro-batches"), "2 micro-batches");
}

TEST(Amount, bytes_are_never_rounded_to_none) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(327'210'354), "327 MB");
  EXPECT_EQ(bytes_text(999'600'000), "1.0 GB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "18.4 EB");
}

TEST(Amount, counts_of_parameters_are_short) {
  EXPECT_EQ(count_text(912), "912");
  EXPECT_EQ(count_text(27'300'000), "27.3M");
  EXPECT_EQ(count_text(8'290'000'000), "8.3B");
  EXPECT_EQ(count_text(999'600), "1.0M");
}

}  // namespace
}  // namespace lf
