#include "media/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lf::media {

TileGrid closest_grid(Size picture, int64_t tile, int64_t least, int64_t most) {
  std::vector<TileGrid> grids;
  for (int64_t columns = 1; columns <= most; ++columns)
    for (int64_t rows = 1; rows <= most; ++rows)
      if (columns * rows >= least && columns * rows <= most) grids.push_back({columns, rows});
  std::stable_sort(grids.begin(), grids.end(),
                   [](const TileGrid& a, const TileGrid& b) { return a.count() < b.count(); });
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  const auto area = static_cast<double>(picture.width * picture.height);
  double best_difference = std::numeric_limits<double>::infinity();
  TileGrid best;
  for (const TileGrid& grid : grids) {
    const double difference = std::abs(ratio - static_cast<double>(grid.columns) / static_cast<double>(grid.rows));
    if (difference < best_difference) {
      best_difference = difference;
      best = grid;
    } else if (difference == best_difference && area > 0.5 * static_cast<double>(tile * tile * grid.count())) {
      best = grid;
    }
  }
  return best;
}

}  // namespace lf::media
