// Positions resized to another grid, against PyTorch's interpolation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "components/intern_vit.h"

namespace lf::components {
namespace {

// [n, width] in reading order, from the table by the taps of merge-block order.
at::Tensor resized(const at::Tensor& table, int64_t tile_side, int64_t side, int64_t merge) {
  const Taps taps = tile_taps(tile_side, side, merge);
  const int64_t rows = 1 + tile_side * tile_side;
  const at::Tensor at = at::tensor(taps.row, at::kLong).view({rows, -1});
  const at::Tensor weight = at::tensor(taps.weight, at::kFloat).view({rows, -1, 1});
  const at::Tensor all = (table.index_select(0, at.flatten()).view({rows, at.size(1), -1}) * weight).sum(1);
  EXPECT_TRUE(all[0].equal(table[0])) << "the class token's position";
  const std::vector<PatchGrid> tile = {{1, tile_side, tile_side}};
  const std::vector<int64_t> places = patch_positions(tile, merge);
  at::Tensor out = at::empty({tile_side * tile_side, table.size(1)});
  for (int64_t i = 0; i < rows - 1; ++i)
    out[places[static_cast<size_t>(i)] * tile_side + places[static_cast<size_t>(rows - 1 + i)]] = all[1 + i];
  return out;
}

TEST(TileTaps, resize_positions_as_pytorchs_bicubic_interpolation_does) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (const auto& [side, tile_side] : {std::pair<int64_t, int64_t>{8, 4}, {4, 8}, {6, 10}, {16, 6}, {2, 4}}) {
    const at::Tensor table = at::randn({1 + side * side, 3}, generator, at::kFloat);
    const at::Tensor grid = table.slice(0, 1).view({1, side, side, 3}).permute({0, 3, 1, 2}).contiguous();
    const at::Tensor expected = at::upsample_bicubic2d(grid, {tile_side, tile_side}, false)
                                    .permute({0, 2, 3, 1})
                                    .reshape({tile_side * tile_side, 3});
    EXPECT_LE((resized(table, tile_side, side, 2) - expected).abs().max().item<float>(), 2e-6)
        << side << " to " << tile_side;
  }
}

TEST(TileTaps, of_one_size_are_one_row_each) {
  const Taps taps = tile_taps(4, 4, 2);
  EXPECT_EQ(taps.row, (std::vector<int64_t>{0, 1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16}));
  EXPECT_EQ(taps.weight, std::vector<float>(17, 1));
}

}  // namespace
}  // namespace lf::components
