#include "diffusion/packed_sample.h"

namespace lf::diffusion {

std::vector<int64_t> patch_places(const Grid& grid, const std::vector<int64_t>& patch, PatchOrder order) {
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(grid.values()));
  const auto place = [&](int64_t c, int64_t f, int64_t y, int64_t x) {
    places.push_back(((c * grid.frames + f) * grid.height + y) * grid.width + x);
  };
  for (int64_t f = 0; f < grid.frames; f += patch[0])
    for (int64_t y = 0; y < grid.height; y += patch[1])
      for (int64_t x = 0; x < grid.width; x += patch[2]) {
        const auto inside = [&](auto&& body) {
          for (int64_t pf = 0; pf < patch[0]; ++pf)
            for (int64_t py = 0; py < patch[1]; ++py)
              for (int64_t px = 0; px < patch[2]; ++px) body(f + pf, y + py, x + px);
        };
        if (order == PatchOrder::kChannelFirst) {
          for (int64_t c = 0; c < grid.channels; ++c)
            inside([&](int64_t pf, int64_t py, int64_t px) { place(c, pf, py, px); });
        } else {
          inside([&](int64_t pf, int64_t py, int64_t px) {
            for (int64_t c = 0; c < grid.channels; ++c) place(c, pf, py, px);
          });
        }
      }
  return places;
}

void Positions::add_grid(int64_t frame, int64_t frames, int64_t height, int64_t width, bool centred) {
  const int64_t top = centred ? -(height - height / 2) : 0, left = centred ? -(width - width / 2) : 0;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        axes[0].push_back(frame + f);
        axes[1].push_back(top + y);
        axes[2].push_back(left + x);
      }
}

void Positions::add_line(int64_t first, int64_t n) {
  for (auto& axis : axes)
    for (int64_t i = 0; i < n; ++i) axis.push_back(first + i);
}

void Positions::add_zeros(int64_t n) {
  for (auto& axis : axes) axis.resize(axis.size() + static_cast<size_t>(n), 0);
}

std::vector<int64_t> Positions::joined() const {
  std::vector<int64_t> all;
  for (const auto& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  return all;
}

}  // namespace lf::diffusion
