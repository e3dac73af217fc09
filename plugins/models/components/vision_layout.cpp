#include "components/vision_layout.h"

#include <algorithm>
#include <cmath>

namespace lf::components {
namespace {

// Calls visit(row, column) for the patches of one frame, in merge-block order.
template <typename Visit>
void for_each_patch(const PatchGrid& grid, int64_t merge, Visit visit) {
  for (int64_t block_row = 0; block_row < grid.height; block_row += merge)
    for (int64_t block_column = 0; block_column < grid.width; block_column += merge)
      for (int64_t row = 0; row < merge; ++row)
        for (int64_t column = 0; column < merge; ++column) visit(block_row + row, block_column + column);
}

struct AxisTap {
  int64_t low, high;
  float low_weight, high_weight;
};

// Index on an axis of `size` patches -> two neighbours on an axis of `side` table rows; in f32 as the reference does.
AxisTap axis_tap(int64_t index, int64_t size, int64_t side) {
  const float at =
      static_cast<float>(index) * static_cast<float>(side - 1) / static_cast<float>(std::max<int64_t>(size - 1, 1));
  const float below = std::floor(at);
  const auto low = static_cast<int64_t>(below);
  return {std::min(low, side - 1), std::min(low + 1, side - 1), std::max(1 - std::abs(at - below), 0.0f),
          std::max(1 - std::abs(at - below - 1), 0.0f)};
}

}  // namespace

std::vector<int64_t> patch_positions(std::span<const PatchGrid> grids, int64_t merge) {
  std::vector<int64_t> rows, columns;
  for (const PatchGrid& grid : grids)
    for (int64_t frame = 0; frame < grid.frames; ++frame)
      for_each_patch(grid, merge, [&](int64_t row, int64_t column) {
        rows.push_back(row);
        columns.push_back(column);
      });
  rows.insert(rows.end(), columns.begin(), columns.end());
  return rows;
}

std::vector<int64_t> frame_starts(std::span<const PatchGrid> grids) {
  std::vector<int64_t> starts = {0};
  for (const PatchGrid& grid : grids)
    for (int64_t frame = 0; frame < grid.frames; ++frame) starts.push_back(starts.back() + grid.height * grid.width);
  return starts;
}

Windows windows(std::span<const PatchGrid> grids, int64_t merge, int64_t window) {
  Windows result;
  result.starts = {0};
  int64_t first_token = 0;
  for (const PatchGrid& grid : grids) {
    const int64_t height = grid.height / merge, width = grid.width / merge;
    for (int64_t frame = 0; frame < grid.frames; ++frame, first_token += height * width)
      for (int64_t top = 0; top < height; top += window)
        for (int64_t left = 0; left < width; left += window) {
          for (int64_t row = top; row < std::min(top + window, height); ++row)
            for (int64_t column = left; column < std::min(left + window, width); ++column)
              result.token_order.push_back(first_token + row * width + column);
          result.starts.push_back(static_cast<int64_t>(result.token_order.size()) * merge * merge);
        }
  }
  return result;
}

Taps bilinear_taps(std::span<const PatchGrid> grids, int64_t merge, int64_t side) {
  Taps taps;
  for (const PatchGrid& grid : grids)
    for (int64_t frame = 0; frame < grid.frames; ++frame)
      for_each_patch(grid, merge, [&](int64_t row, int64_t column) {
        const AxisTap r = axis_tap(row, grid.height, side), c = axis_tap(column, grid.width, side);
        taps.row.insert(taps.row.end(),
                        {r.low * side + c.low, r.low * side + c.high, r.high * side + c.low, r.high * side + c.high});
        taps.weight.insert(taps.weight.end(), {r.low_weight * c.low_weight, r.low_weight * c.high_weight,
                                               r.high_weight * c.low_weight, r.high_weight * c.high_weight});
      });
  return taps;
}

}  // namespace lf::components
