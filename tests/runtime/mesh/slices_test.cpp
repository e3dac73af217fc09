#include "mesh/slices.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"

namespace lf {
namespace {

struct Draw {
  std::mt19937_64 engine;
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  bool flip() { return (*this)(0, 1) == 1; }
};

int64_t flat(const std::vector<int64_t>& shape, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset = offset * shape[axis] + index[axis];
  return offset;
}

// Every index of a box, last axis fastest.
std::vector<std::vector<int64_t>> indices(const Box& box) {
  std::vector<std::vector<int64_t>> all;
  if (box.empty()) return all;
  std::vector<int64_t> index(box.begin.begin(), box.begin.begin() + box.ndim);
  while (true) {
    all.push_back(index);
    int axis = box.ndim - 1;
    for (; axis >= 0; --axis) {
      if (++index[axis] < box.end[axis]) break;
      index[axis] = box.begin[axis];
    }
    if (axis < 0) return all;
  }
}

// A parameter of 1 to 3 parts with any mixture of cuts, copies, stacks and transposes that a description may have.
ParameterInfo random_parameter(Draw& draw) {
  ParameterInfo parameter;
  parameter.name = "p";
  const int ndim = static_cast<int>(draw(1, 3));
  const int n_parts = static_cast<int>(draw(1, 3));
  parameter.join_axis = static_cast<int32_t>(draw(0, ndim - 1));
  for (int axis = 0; axis < ndim; ++axis) parameter.shape.push_back(draw(1, 7));
  const auto along = [&] { return static_cast<int32_t>(draw(LF_ALONG_NONE, LF_ALONG_EP)); };
  const int32_t common_along = along();
  const bool across = n_parts > 1 && draw.flip() && ndim > 1;  // cut on an axis other than the join: alike in all parts
  const int32_t across_axis = (parameter.join_axis + 1) % ndim;
  const int64_t across_piece = draw(1, 4);
  const bool across_copy = draw.flip();
  int64_t joined = 0;
  for (int k = 0; k < n_parts; ++k) {
    ParameterPart part;
    part.name = "file" + std::to_string(k);
    part.shape = parameter.shape;
    if (n_parts > 1) part.shape[parameter.join_axis] = draw(1, 9);
    joined += part.shape[parameter.join_axis];
    part.along = across ? common_along : along();
    part.axis = across ? across_axis : (n_parts > 1 ? parameter.join_axis : static_cast<int32_t>(draw(0, ndim - 1)));
    part.piece = across ? across_piece : draw(1, 4);
    if (across ? across_copy : draw.flip()) part.flags |= LF_PART_COPY;
    if (draw.flip()) {
      part.flags |= LF_PART_STACK;
      part.stack = part.shape[0];
      part.name += ".{}";
    }
    if (draw.flip() && ndim - ((part.flags & LF_PART_STACK) != 0 ? 1 : 0) >= 2) part.flags |= LF_PART_TRANSPOSE;
    parameter.parts.push_back(part);
  }
  if (n_parts > 1) parameter.shape[parameter.join_axis] = joined;
  return parameter;
}

std::vector<Place> places_of(int64_t tp, int64_t ep) {
  std::vector<Place> places;
  for (int64_t e = 0; e < ep; ++e) {
    for (int64_t t = 0; t < tp; ++t) places.push_back({t, tp, e, ep});
  }
  return places;
}

using Files = std::map<std::string, std::vector<int64_t>>;

// Files whose every element has its own number.
Files numbered_files(const ParameterInfo& parameter) {
  Files files;
  int64_t next = 1;
  for (const ParameterPart& part : parameter.parts) {
    for (int64_t i = 0; i < file_tensor_count(part); ++i) {
      std::vector<int64_t>& values = files[file_tensor_name(part, i)];
      values.resize(whole(file_tensor_shape(part)).elements());
      for (int64_t& value : values) value = next++;
    }
  }
  return files;
}

std::vector<int64_t> file_index(const Fragment& fragment, const std::vector<int64_t>& step) {
  std::vector<int64_t> index(fragment.file.ndim);
  const size_t lead = step.size() - index.size();
  for (size_t axis = 0; axis < index.size(); ++axis) index[axis] = step[lead + axis];
  if (fragment.transposed) std::swap(index[index.size() - 1], index[index.size() - 2]);
  for (size_t axis = 0; axis < index.size(); ++axis) index[axis] += fragment.file.begin[axis];
  return index;
}

// Copies between a rank's array and the files, element by element, along the fragments of some boxes.
void move(const ParameterInfo& parameter, const Place& place, const Box& local, std::vector<int64_t>& array,
          Files& files, bool to_files, std::map<std::string, std::vector<int>>* hits = nullptr) {
  const std::vector<int64_t> shape = local_shape(parameter, place);
  for (const Fragment& fragment : fragments(parameter, place, local)) {
    const ParameterPart& part = parameter.parts[fragment.part];
    const std::string name = file_tensor_name(part, fragment.index);
    for (const std::vector<int64_t>& at : indices(fragment.local)) {
      std::vector<int64_t> step = at;
      for (size_t axis = 0; axis < step.size(); ++axis) step[axis] -= fragment.local.begin[axis];
      const int64_t in_file = flat(file_tensor_shape(part), file_index(fragment, step));
      int64_t& held = array[flat(shape, at)];
      int64_t& stored = files.at(name)[in_file];
      (to_files ? stored : held) = to_files ? held : stored;
      if (hits != nullptr) ++(*hits)[name][in_file];
    }
  }
}

TEST(Slices, over_all_ranks_every_file_element_is_written_exactly_once) {
  for (uint64_t seed = 0; seed < 100'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const ParameterInfo parameter = random_parameter(draw);
    ASSERT_NO_THROW(check_parameters({parameter})) << "seed " << seed;
    const std::vector<Place> places = places_of(draw(1, 5), draw(1, 3));
    std::map<std::string, std::vector<int>> hits;
    for (const auto& [name, values] : numbered_files(parameter)) hits[name].resize(values.size());
    for (size_t rank = 0; rank < places.size(); ++rank) {
      for (const HeldBox& box : written_boxes(parameter, places, rank)) {
        for (const Fragment& fragment : fragments(parameter, box.full)) {
          const ParameterPart& part = parameter.parts[fragment.part];
          for (const std::vector<int64_t>& at : indices(fragment.file))
            ++hits.at(file_tensor_name(part, fragment.index))[flat(file_tensor_shape(part), at)];
        }
      }
    }
    for (const auto& [name, counts] : hits) {
      for (const int count : counts) ASSERT_EQ(count, 1) << "seed " << seed << ", file tensor " << name;
    }
  }
}

TEST(Slices, any_layout_to_any_other_through_files_gives_the_same_values) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const ParameterInfo parameter = random_parameter(draw);
    Files source = numbered_files(parameter), target = source;
    for (auto& [name, values] : target) std::fill(values.begin(), values.end(), 0);
    for (const Place& place : places_of(draw(1, 5), draw(1, 3))) {
      const std::vector<int64_t> shape = local_shape(parameter, place);
      std::vector<int64_t> array(whole(shape).elements());
      // In flat runs, as optimizer shards are cut.
      const int64_t total = static_cast<int64_t>(array.size()), middle = draw(0, total);
      for (const auto& [begin, end] : {std::pair{int64_t{0}, middle}, std::pair{middle, total}}) {
        for (const Box& box : boxes_of_run(shape, begin, end)) move(parameter, place, box, array, source, false);
      }
      for (const int64_t value : array) ASSERT_NE(value, 0) << "seed " << seed << ": an element was not read";
      move(parameter, place, whole(shape), array, target, true);
    }
    ASSERT_EQ(source, target) << "seed " << seed;
  }
}

TEST(Slices, file_boxes_and_whole_boxes_are_inverse) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const ParameterInfo parameter = random_parameter(draw);
    const Place place{0, 1, 0, 1};
    for (const Fragment& fragment : fragments(parameter, place, whole(parameter.shape)))
      ASSERT_EQ(full_box(parameter, fragment.part, fragment.index, fragment.file), fragment.full) << "seed " << seed;
  }
}

TEST(Slices, the_abi_and_the_runtime_agree_on_local_shapes) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draw draw{std::mt19937_64{seed}};
    const ParameterInfo parameter = random_parameter(draw);
    lf_param param{};
    param.ndim = static_cast<int32_t>(parameter.shape.size());
    param.join_axis = parameter.join_axis;
    std::copy(parameter.shape.begin(), parameter.shape.end(), param.shape);
    std::vector<lf_part> parts;
    for (const ParameterPart& part : parameter.parts) {
      lf_part& made = parts.emplace_back();
      made.flags = part.flags;
      made.axis = part.axis;
      made.along = part.along;
      made.piece = part.piece;
      std::copy(part.shape.begin(), part.shape.end(), made.shape);
    }
    const int64_t tp = draw(1, 5), ep = draw(1, 3);
    const Place place{draw(0, tp - 1), tp, draw(0, ep - 1), ep};
    int64_t shape[LF_MAX_DIMS];
    lf_local_shape(&param, parts.data(), static_cast<uint32_t>(parts.size()), place, shape);
    ASSERT_EQ(local_shape(parameter, place), std::vector<int64_t>(shape, shape + param.ndim)) << "seed " << seed;
  }
}

ParameterPart part_of(const char* name, std::vector<int64_t> shape, int64_t piece, uint32_t flags = 0) {
  ParameterPart part;
  part.name = name;
  part.shape = std::move(shape);
  part.piece = piece;
  part.along = LF_ALONG_TP;
  part.flags = flags;
  return part;
}

TEST(Slices, fused_qkv_with_two_kv_heads_over_four_ranks_copies_heads_to_neighbours) {
  ParameterInfo qkv;
  qkv.name = "qkv";
  qkv.shape = {16 + 4 + 4, 8};
  qkv.parts = {part_of("q", {16, 8}, 4), part_of("k", {4, 8}, 2, LF_PART_COPY), part_of("v", {4, 8}, 2, LF_PART_COPY)};
  check_parameters({qkv});
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto held = held_boxes(qkv, {rank, 4, 0, 1});
    ASSERT_EQ(held.size(), 3u);
    EXPECT_EQ(held[0].full.begin[0], 4 * rank);
    EXPECT_EQ(held[0].full.end[0], 4 * rank + 4);
    EXPECT_EQ(held[1].full.begin[0], 16 + 2 * (rank / 2));
    EXPECT_EQ(held[2].full.begin[0], 20 + 2 * (rank / 2));
    EXPECT_EQ(local_shape(qkv, {rank, 4, 0, 1}), (std::vector<int64_t>{8, 8}));
  }
}

TEST(Slices, five_experts_over_eight_ranks_leave_ranks_without_any) {
  ParameterInfo experts;
  experts.name = "experts";
  experts.shape = {5, 3, 2};
  ParameterPart part = part_of("experts.{}.w", {5, 3, 2}, 1, LF_PART_STACK);
  part.along = LF_ALONG_EP;
  part.stack = 5;
  experts.parts = {part};
  check_parameters({experts});
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < 8; ++rank) counts.push_back(local_shape(experts, {0, 1, rank, 8})[0]);
  EXPECT_EQ(counts, (std::vector<int64_t>{0, 1, 0, 1, 1, 0, 1, 1}));
  EXPECT_TRUE(held_boxes(experts, {0, 1, 0, 8}).empty());
}

TEST(Slices, words_are_dealt_in_pieces_of_64_and_never_padded) {
  ParameterInfo table;
  table.name = "embed";
  table.shape = {151936, 4};
  table.parts = {part_of("embed", {151936, 4}, 64)};
  int64_t rows = 0;
  for (int64_t rank = 0; rank < 8; ++rank) {
    const int64_t held = local_shape(table, {rank, 8, 0, 1})[0];
    EXPECT_TRUE(held == 296 * 64 || held == 297 * 64) << held;
    rows += held;
  }
  EXPECT_EQ(rows, 151936);
}

TEST(Slices, a_table_whose_shapes_do_not_fit_is_refused_by_the_parameters_name) {
  ParameterInfo bad;
  bad.name = "layers.0.qkv";
  bad.shape = {10, 8};
  bad.parts = {part_of("q", {4, 8}, 2), part_of("k", {4, 8}, 2)};
  try {
    check_parameters({bad});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kConfig);
    EXPECT_NE(std::string(error.what()).find("layers.0.qkv"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("8 rows"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lf
