#include "media/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lf::media {

TileGrid closest_grid(Size picture, int64_t tile, int64_t least, int64_t most) {
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  double best_difference = std::numeric_limits<double>::infinity();
  std::vector<TileGrid> nearest;  // those with that difference, by columns
  for (int64_t columns = 1; columns <= most; ++columns)
    for (int64_t rows = std::max<int64_t>((least + columns - 1) / columns, 1); rows <= most / columns; ++rows) {
      const double difference = std::abs(ratio - static_cast<double>(columns) / static_cast<double>(rows));
      if (difference > best_difference) continue;
      if (difference < best_difference) nearest.clear();
      best_difference = difference;
      nearest.push_back({columns, rows});
    }
  if (nearest.empty()) return {};
  std::stable_sort(nearest.begin(), nearest.end(),
                   [](const TileGrid& a, const TileGrid& b) { return a.count() < b.count(); });
  const double area = static_cast<double>(picture.width) * static_cast<double>(picture.height);
  const double tile_area = static_cast<double>(tile) * static_cast<double>(tile);
  TileGrid best = nearest.front();
  for (const TileGrid& grid : nearest)
    if (area > 0.5 * tile_area * static_cast<double>(grid.count())) best = grid;
  return best;
}

}  // namespace lf::media
