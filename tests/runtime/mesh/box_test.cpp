#include "mesh/box.h"

#include <random>

#include <gtest/gtest.h>

namespace lf {
namespace {

struct Draw {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
};

// Flat offsets of a box's elements, element by element: the slow way that everything is compared with.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<int64_t> offsets;
  int64_t total = 1;
  for (const int64_t n : shape) total *= n;
  for (int64_t flat = 0; flat < total; ++flat) {
    int64_t rest = flat;
    bool inside = true;
    for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
      const int64_t index = rest % shape[axis];
      rest /= shape[axis];
      inside &= index >= box.begin[axis] && index < box.end[axis];
    }
    if (inside) offsets.push_back(flat);
  }
  return offsets;
}

std::vector<int64_t> random_shape(Draw& draw, int most_axes) {
  std::vector<int64_t> shape(draw(0, most_axes));
  for (int64_t& n : shape) n = draw(1, 5);
  return shape;
}

Box random_box(Draw& draw, const std::vector<int64_t>& shape) {
  Box box = whole(shape);
  for (int axis = 0; axis < box.ndim; ++axis) {
    box.begin[axis] = draw(0, shape[axis]);
    box.end[axis] = draw(box.begin[axis], shape[axis]);
  }
  return box;
}

TEST(Box, a_flat_run_becomes_few_disjoint_boxes_in_order_that_cover_exactly_it) {
  for (uint64_t seed = 0; seed < 100'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const std::vector<int64_t> shape = random_shape(draw, 4);
    const int64_t total = whole(shape).elements();
    const int64_t begin = draw(0, total), end = draw(begin, total);
    const std::vector<Box> boxes = boxes_of_run(shape, begin, end);
    ASSERT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size()) - (shape.empty() ? 0 : 1)) << "seed " << seed;
    std::vector<int64_t> covered;
    for (const Box& box : boxes) {
      for (const int64_t offset : offsets_of(shape, box)) covered.push_back(offset);
    }
    ASSERT_EQ(static_cast<int64_t>(covered.size()), end - begin) << "seed " << seed;
    for (size_t i = 0; i < covered.size(); ++i)
      ASSERT_EQ(covered[i], begin + static_cast<int64_t>(i)) << "seed " << seed;
  }
}

TEST(Box, contiguous_runs_of_a_box_visit_its_elements_in_order) {
  for (uint64_t seed = 0; seed < 100'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const std::vector<int64_t> shape = random_shape(draw, 4);
    const Box box = random_box(draw, shape);
    std::vector<int64_t> visited;
    for_each_run(shape, box, [&](int64_t offset, int64_t length) {
      for (int64_t i = 0; i < length; ++i) visited.push_back(offset + i);
    });
    ASSERT_EQ(visited, offsets_of(shape, box)) << "seed " << seed;
  }
}

TEST(Box, the_intersection_has_exactly_the_common_elements) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const std::vector<int64_t> shape = random_shape(draw, 3);
    const Box a = random_box(draw, shape), b = random_box(draw, shape);
    const auto in_a = offsets_of(shape, a), in_b = offsets_of(shape, b);
    std::vector<int64_t> common;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(common));
    ASSERT_EQ(offsets_of(shape, intersect(a, b)), common) << "seed " << seed;
    ASSERT_EQ(relative_to(absolute_from(b, a), a), b) << "seed " << seed;
  }
}

TEST(Box, whole_rows_are_one_run) {
  const std::vector<int64_t> shape = {4, 3, 5};
  int runs = 0;
  Box box = whole(shape);
  box.begin[0] = 1;
  box.end[0] = 3;
  for_each_run(shape, box, [&](int64_t offset, int64_t length) {
    ++runs;
    EXPECT_EQ(offset, 15);
    EXPECT_EQ(length, 30);
  });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace lf
