#include "family/sequence.h"

#include <gtest/gtest.h>

namespace lf::family {
namespace {

// Ten rows; inputs at [2, 5) and [6, 9).
Sequence ten() {
  Sequence sequence;
  sequence.ids = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  sequence.labels = {0, -100, -100, -100, -100, 5, -100, -100, -100, 9};
  sequence.vision.resize(2);
  sequence.blocks = {{2, 5}, {6, 9}};
  return sequence;
}

TEST(Sequence, a_cut_never_falls_inside_a_picture) {
  const int64_t expected[] = {0, 1, 2, 2, 2, 5, 6, 6, 6, 9, 10, 10};
  const size_t inputs[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
  for (int64_t rows = 0; rows <= 11; ++rows) {
    Sequence sequence = ten();
    cut(sequence, rows);
    EXPECT_EQ(sequence.rows(), expected[rows]) << rows;
    EXPECT_EQ(sequence.labels.size(), sequence.ids.size());
    EXPECT_EQ(sequence.vision.size(), inputs[rows]) << rows;
    EXPECT_EQ(sequence.blocks.size(), inputs[rows]) << rows;
  }
}

TEST(Sequence, the_first_row_is_never_predicted_and_a_cut_loses_what_it_cuts) {
  Sequence sequence = ten();
  EXPECT_EQ(sequence.supervised(), 2);
  cut(sequence, 9);
  EXPECT_EQ(sequence.supervised(), 1);
  cut(sequence, 4);
  EXPECT_EQ(sequence.supervised(), 0);
}

}  // namespace
}  // namespace lf::family
