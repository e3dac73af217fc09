// Where the patches of images and video frames stand: pure functions of grid sizes.
//
// Patches come frame by frame in merge-block order: the m x m patches that become one token are neighbours, blocks run
// row by row (Qwen2-VL image processor). Sources: arXiv:2409.12191, arXiv:2502.13923; transformers 5.24
// vision_utils.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lf::components {

// An image (frames 1) or a video: `frames` temporal rows of height x width patches, both multiples of the merge size.
struct PatchGrid {
  int64_t frames = 0, height = 0, width = 0;
  int64_t patches() const { return frames * height * width; }
};

// Row and column of every patch: [rows of all..., columns of all...], 2 x patches.
std::vector<int64_t> patch_positions(std::span<const PatchGrid> grids, int64_t merge);

// First patch of every frame, and the end.
std::vector<int64_t> frame_starts(std::span<const PatchGrid> grids);

// Attention windows of `window` x `window` tokens (Qwen2.5-VL), cut from each frame's upper left corner.
struct Windows {
  std::vector<int64_t> token_order;  // position in window order -> token (m x m patches) in frame order
  std::vector<int64_t> starts;       // first patch of every window, in window order, and the end
};
Windows windows(std::span<const PatchGrid> grids, int64_t merge, int64_t window);

// Four taps into a square table of side² rows for every patch, bilinear with aligned corners.
struct Taps {
  std::vector<int64_t> row;   // [patches, 4]
  std::vector<float> weight;  // [patches, 4]
};
Taps bilinear_taps(std::span<const PatchGrid> grids, int64_t merge, int64_t side);

}  // namespace lf::components
