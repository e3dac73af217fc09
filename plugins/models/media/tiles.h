// Dynamic tiling: which grid of equal tiles a picture is resized to and cut into (InternVL 1.5, arXiv:2404.16821).
// Pure.
#pragma once

#include <cstdint>

#include "media/smart_resize.h"

namespace lf::media {

struct TileGrid {
  int64_t columns = 1, rows = 1;
  int64_t count() const { return columns * rows; }
  bool operator==(const TileGrid&) const = default;
};

// Of all grids of `least` to `most` tiles the one whose sides' ratio is nearest to the picture's; of several with one
// ratio the largest that the picture fills to more than half. Sides are at least 1. As many divisions as there are
// grids, about most · ln(most), and no list of them. Source: transformers 5.24 (image_processing_pil_got_ocr2.py),
// equal to the authors' dynamic_preprocess.
inline constexpr int64_t kMostTiles = 4096;  // of a picture, that a file or a job may ask for
TileGrid closest_grid(Size picture, int64_t tile, int64_t least, int64_t most);

}  // namespace lf::media
