#include "plugins/models/qwen_vl/columns.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lf::test {
namespace {

constexpr int64_t kIgnored = -100;

struct Sequence {
  int64_t begin, end;  // flat rows
};

std::vector<Sequence> sequences(const std::map<std::string, FileTensor>& inputs) {
  std::vector<Sequence> result;
  if (inputs.contains("cu_seqlens")) {
    const auto& starts = inputs.at("cu_seqlens").integers;
    for (size_t i = 0; i + 1 < starts.size(); ++i) result.push_back({starts[i], starts[i + 1]});
    return result;
  }
  const FileTensor& mask = inputs.at("attention_mask");
  const int64_t length = mask.shape[1];
  for (int64_t row = 0; row < mask.shape[0]; ++row) {
    const auto first = mask.integers.begin() + row * length;
    result.push_back({row * length, row * length + std::count(first, first + length, 1)});
  }
  return result;
}

// The images (or videos) of a case, taken one after the other.
struct Media {
  std::vector<std::array<int64_t, 3>> grids;
  std::vector<float> pixels;
  int64_t columns = 0;
  size_t next_grid = 0, next_pixel = 0;

  Media(const std::map<std::string, FileTensor>& inputs, const std::string& grid, const std::string& pixel,
        bool by_frame) {
    if (!inputs.contains(grid)) return;
    const auto& numbers = inputs.at(grid).integers;
    for (size_t i = 0; i < numbers.size(); i += 3)
      for (int64_t frame = 0; frame < (by_frame ? numbers[i] : 1); ++frame)
        grids.push_back({by_frame ? 1 : numbers[i], numbers[i + 1], numbers[i + 2]});
    pixels = inputs.at(pixel).floats;
    columns = inputs.at(pixel).shape[1];
  }
};

}  // namespace

size_t sequence_count(const std::map<std::string, FileTensor>& inputs) { return sequences(inputs).size(); }

Columns make_columns(const std::map<std::string, FileTensor>& inputs, const ColumnOptions& options,
                     const std::vector<size_t>& which) {
  const auto& ids = inputs.at("input_ids").integers;
  const auto& labels = inputs.at("labels").integers;
  const auto& types = inputs.at("mm_token_type_ids").integers;
  const auto& positions = inputs.at("position_ids").integers;
  const int64_t flat = static_cast<int64_t>(ids.size());
  Media images(inputs, "image_grid_thw", "pixel_values", false);
  Media videos(inputs, "video_grid_thw", "pixel_values_videos", options.one_grid_per_frame);

  Columns out;
  out.segment_starts = {0};
  out.pixel_columns = std::max(images.columns, videos.columns);
  std::vector<std::array<int64_t, 3>> position_rows;
  const std::vector<Sequence> all = sequences(inputs);
  for (size_t s = 0; s < all.size(); ++s) {
    const bool taken = which.empty() || std::find(which.begin(), which.end(), s) != which.end();
    int64_t left_of_grid = 0;
    for (int64_t r = all[s].begin; r < all[s].end; ++r) {
      if (types[static_cast<size_t>(r)] != 0) {
        if (left_of_grid == 0) {
          Media& media = types[static_cast<size_t>(r)] == 1 ? images : videos;
          const auto grid = media.grids.at(media.next_grid++);
          const int64_t patches = grid[0] * grid[1] * grid[2];
          left_of_grid = patches / (options.merge * options.merge);
          const size_t size = static_cast<size_t>(patches * media.columns);
          if (taken) {
            out.grid_thw.insert(out.grid_thw.end(), grid.begin(), grid.end());
            const auto first = media.pixels.begin() + static_cast<int64_t>(media.next_pixel);
            out.pixel_values.insert(out.pixel_values.end(), first, first + static_cast<int64_t>(size));
          }
          media.next_pixel += size;
        }
        --left_of_grid;
        if (taken) out.visual_rows.push_back(out.rows());
      }
      if (!taken) continue;
      out.input_ids.push_back(ids[static_cast<size_t>(r)]);
      out.targets.push_back(r + 1 < all[s].end ? labels[static_cast<size_t>(r + 1)] : kIgnored);
      position_rows.push_back({positions[static_cast<size_t>(r)], positions[static_cast<size_t>(flat + r)],
                               positions[static_cast<size_t>(2 * flat + r)]});
      out.source_row.push_back(r);
    }
    if (left_of_grid != 0) throw std::runtime_error("a sequence ends inside an image");
    if (taken) out.segment_starts.push_back(out.rows());
  }
  for (size_t axis = 0; axis < 3; ++axis)
    for (const auto& position : position_rows) out.position_ids.push_back(position[axis]);
  return out;
}

}  // namespace lf::test
