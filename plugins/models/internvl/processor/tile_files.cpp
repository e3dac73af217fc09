#include "internvl/processor/tile_files.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "media/frames.h"
#include "media/resample.h"

namespace lf::internvl {
namespace {

using family::MediaFiles;
using family::VisionInput;

constexpr int64_t kDecodedBytes = 256 << 20;  // of a video at once

void check_size(media::Size size, const std::string& path) {
  if (size.height < 1 || size.width < 1)
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: a picture of {} x {} pixels: expected at least one", path,
                                              size.width, size.height));
}

VisionInput tiles_of(const TileRules& rules, int64_t count) {
  VisionInput input;
  input.groups = count;
  input.height = input.width = rules.tile / rules.shape.patch;
  return input;
}

// u8 [tile, tile, 3] out of a canvas.
void cut_out(const uint8_t* canvas, int64_t canvas_width, int64_t column, int64_t row, int64_t tile, uint8_t* out) {
  for (int64_t y = 0; y < tile; ++y)
    std::memcpy(out + y * tile * 3, canvas + ((row * tile + y) * canvas_width + column * tile) * 3,
                static_cast<size_t>(tile * 3));
}

// f32 [3, side, side] -> rows of patches in merge-block order.
void write_ready(const float* pixels, int64_t side, const media::PatchShape& shape, float* out) {
  const int64_t p = shape.patch;
  for (int64_t block_y = 0; block_y < side; block_y += shape.factor())
    for (int64_t block_x = 0; block_x < side; block_x += shape.factor())
      for (int64_t y = block_y; y < block_y + shape.factor(); y += p)
        for (int64_t x = block_x; x < block_x + shape.factor(); x += p)
          for (int64_t channel = 0; channel < 3; ++channel)
            for (int64_t line = 0; line < p; ++line, out += p)
              std::memcpy(out, pixels + (channel * side + y + line) * side + x, static_cast<size_t>(p) * sizeof(float));
}

}  // namespace

VisionInput TileFiles::plan_image(const std::string& path, int64_t pictures, const TileRules& rules) const {
  const lf_media_info info = media_.probe(path, LF_MEDIA_IMAGE);
  MediaFiles files;
  files.paths = {path};
  files.size = {info.height, info.width};
  check_size(files.size, path);
  const media::TileGrid grid = rules.grid(files.size, pictures);
  files.target = {grid.rows * rules.tile, grid.columns * rules.tile};
  VisionInput input = tiles_of(rules, rules.tiles(grid));
  input.source = std::move(files);
  return input;
}

VisionInput TileFiles::plan_video(const std::string& path, double fps, const TileRules& rules) const {
  const lf_media_info info = media_.probe(path, LF_MEDIA_VIDEO);
  MediaFiles files;
  files.paths = {path};
  files.size = {info.height, info.width};
  check_size(files.size, path);
  files.target = {rules.tile, rules.tile};
  if (info.frames < 1)
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: a video of {} frames: expected at least one", path, info.frames));
  files.frames = rules.frames(info.frames, info.frames_per_second, fps);
  VisionInput input = tiles_of(rules, static_cast<int64_t>(files.frames.size()));
  input.video = true;
  input.source = std::move(files);
  return input;
}

VisionInput TileFiles::plan_frames(const std::vector<std::string>& paths, double, const TileRules& rules) const {
  const auto total = static_cast<int64_t>(paths.size());
  MediaFiles files;
  if (paths.empty()) throw sdk::Failure(LF_E_DATA, "a video without frames");
  // Frames that somebody chose are all looked at, up to the limit.
  std::vector<int64_t> chosen(paths.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  if (total > rules.max_frames) chosen = media::sample_frames_centred(total, rules.max_frames);
  for (const int64_t frame : chosen) files.paths.push_back(paths[static_cast<size_t>(frame)]);
  const lf_media_info info = media_.probe_frames(paths, chosen);
  files.size = {info.height, info.width};
  check_size(files.size, files.paths.front());
  files.target = {rules.tile, rules.tile};
  VisionInput input = tiles_of(rules, static_cast<int64_t>(files.paths.size()));
  input.video = true;
  input.source = std::move(files);
  return input;
}

void TileFiles::write_rows(const VisionInput& input, const TileRules& rules, float* out) const {
  const int64_t tile = rules.tile, values = input.height * input.width * rules.shape.values();
  const media::Size square{tile, tile};
  if (const auto* ready = std::get_if<family::ReadyTiles>(&input.source)) {
    for (const float* pixels : ready->tiles) {
      write_ready(pixels, tile, rules.shape, out);
      out += values;
    }
    return;
  }
  const auto& files = std::get<MediaFiles>(input.source);
  const std::unique_ptr<uint8_t[]> one(new uint8_t[static_cast<size_t>(tile * tile * 3)]);
  const uint8_t* frame[] = {one.get()};
  const auto write_tile = [&] {
    media::write_patches(frame, square, rules.shape, rules.levels, out);
    out += values;
  };
  const auto write_resized = [&](const uint8_t* pixels, media::PassOrder order) {
    media::resize_bicubic(pixels, files.size, one.get(), square, order);
    write_tile();
  };
  if (!input.video) {
    family::Pixels pixels;
    media_.decode_image(files.paths.front(), files.size, pixels);
    const std::unique_ptr<uint8_t[]> canvas(
        new uint8_t[static_cast<size_t>(files.target.height * files.target.width * 3)]);
    media::resize_bicubic(pixels.data(), files.size, canvas.get(), files.target, media::PassOrder::kPillow);
    const media::TileGrid grid{files.target.width / tile, files.target.height / tile};
    for (int64_t i = 0; i < grid.count(); ++i) {
      cut_out(canvas.get(), files.target.width, i % grid.columns, i / grid.columns, tile, one.get());
      write_tile();
    }
    if (input.groups > grid.count()) write_resized(pixels.data(), media::PassOrder::kPillow);
    return;
  }
  if (files.frames.empty()) {  // one picture per frame
    for (const std::string& path : files.paths) {
      family::Pixels pixels;
      media_.decode_image(path, files.size, pixels);
      write_resized(pixels.data(), media::PassOrder::kRowsFirst);
    }
    return;
  }
  const int64_t bytes = files.size.height * files.size.width * 3;
  const auto at_once = static_cast<size_t>(std::max<int64_t>(kDecodedBytes / bytes, 1));
  for (size_t first = 0; first < files.frames.size(); first += at_once) {
    const size_t count = std::min(at_once, files.frames.size() - first);
    family::Pixels pixels;
    media_.decode_video(files.paths.front(), {&files.frames[first], count}, files.size, pixels);
    for (size_t i = 0; i < count; ++i)
      write_resized(pixels.data() + static_cast<int64_t>(i) * bytes, media::PassOrder::kRowsFirst);
  }
}

}  // namespace lf::internvl
