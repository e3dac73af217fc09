#include "qwen_vl/processor/vision_files.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "media/patches.h"
#include "media/resample.h"

namespace lf::qwen_vl {
namespace {

constexpr int64_t kDecodedBytes = 256 << 20;  // of a video at once

// Runs `body` and puts the file's name before what it throws.
template <typename Body>
auto of_file(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const sdk::Failure& failure) {
    throw sdk::Failure(failure.code(), fmt::format("{}: {}", path, failure.what()));
  }
}

// Size, grid and frames of a video whose frames to look at are known. `path`: of the file that gave the size.
void settle_video(VisionInput& input, const std::string& path, MediaFiles files, std::vector<int64_t> frames,
                  double native_fps, double sampled_fps, const VisionRules& rules) {
  const int64_t temporal = rules.shape.temporal;
  files.target = of_file(path, [&] { return rules.video_size(files.size, static_cast<int64_t>(frames.size())); });
  while (frames.size() % static_cast<size_t>(temporal) != 0) frames.push_back(frames.back());
  input.video = true;
  input.groups = static_cast<int64_t>(frames.size()) / temporal;
  input.height = files.target.height / rules.shape.patch;
  input.width = files.target.width / rules.shape.patch;
  input.seconds_per_group = static_cast<float>(static_cast<double>(temporal) / sampled_fps);
  if (rules.qwen3)
    for (size_t i = 0; i < frames.size(); i += static_cast<size_t>(temporal)) {
      const auto first = static_cast<double>(frames[i]),
                 last = static_cast<double>(frames[i + static_cast<size_t>(temporal) - 1]);
      input.stamps.push_back(fmt::format("<{:.1f} seconds>", (first / native_fps + last / native_fps) / 2));
    }
  files.frames = std::move(frames);
  input.source = std::move(files);
}

}  // namespace

VisionInput VisionFiles::plan_image(const std::string& path, const VisionRules& rules) const {
  const lf_media_info info = media_.probe(path, LF_MEDIA_IMAGE);
  MediaFiles files;
  files.paths = {path};
  files.size = {info.height, info.width};
  files.target = of_file(path, [&] { return rules.image_size(files.size); });
  VisionInput input;
  input.height = files.target.height / rules.shape.patch;
  input.width = files.target.width / rules.shape.patch;
  input.source = std::move(files);
  return input;
}

VisionInput VisionFiles::plan_video(const std::string& path, double fps, const VisionRules& rules) const {
  const lf_media_info info = media_.probe(path, LF_MEDIA_VIDEO);
  MediaFiles files;
  files.paths = {path};
  files.size = {info.height, info.width};
  auto frames = of_file(path, [&] {
    return rules.sample(info.frames, info.frames_per_second, fps > 0 ? fps : rules.frames.frames_per_second);
  });
  const double sampled = static_cast<double>(frames.size()) / static_cast<double>(info.frames) * info.frames_per_second;
  VisionInput input;
  settle_video(input, path, std::move(files), std::move(frames), info.frames_per_second, sampled, rules);
  return input;
}

VisionInput VisionFiles::plan_frames(const std::vector<std::string>& paths, double fps,
                                     const VisionRules& rules) const {
  if (paths.empty()) throw sdk::Failure(LF_E_DATA, "a video without frames");
  if (!(fps > 0)) fps = rules.frames.frames_per_second;
  const auto total = static_cast<int64_t>(paths.size());
  std::vector<int64_t> frames(paths.size());
  std::iota(frames.begin(), frames.end(), 0);
  if (total > rules.frames.most) frames = rules.sample(total, fps, fps);
  const lf_media_info info = media_.probe_frames(paths, frames);
  MediaFiles files;
  files.size = {info.height, info.width};
  const std::string& first = paths[static_cast<size_t>(frames.front())];
  const double sampled = static_cast<double>(frames.size()) / static_cast<double>(total) * fps;
  VisionInput input;
  settle_video(input, first, std::move(files), std::move(frames), fps, sampled, rules);
  auto& settled = std::get<MediaFiles>(input.source);
  for (const int64_t frame : settled.frames) settled.paths.push_back(paths[static_cast<size_t>(frame)]);
  settled.frames.clear();
  return input;
}

void VisionFiles::write_rows(const VisionInput& input, const VisionRules& rules, float* out) const {
  const auto& files = std::get<MediaFiles>(input.source);
  const auto temporal = static_cast<size_t>(rules.shape.temporal);
  const int64_t source_bytes = files.size.height * files.size.width * 3,
                bytes = files.target.height * files.target.width * 3;
  const int64_t group_values = input.height * input.width * rules.shape.values();
  const media::Levels& levels = input.video ? rules.video_levels : rules.image_levels;
  const auto order = input.video ? media::PassOrder::kRowsFirst : media::PassOrder::kPillow;
  const std::unique_ptr<uint8_t[]> resized(new uint8_t[static_cast<size_t>(bytes) * temporal]);
  std::vector<const uint8_t*> group(temporal, resized.get());

  const auto decode_picture = [&](const std::string& path, uint8_t* to) {
    family::Pixels pixels;
    media_.decode_image(path, files.size, pixels);
    media::resize_bicubic(pixels.data(), files.size, to, files.target, order);
  };
  if (!input.video) {
    decode_picture(files.paths.front(), resized.get());
    return media::write_patches(group, files.target, rules.shape, levels, out);
  }
  for (size_t t = 0; t < temporal; ++t) group[t] = resized.get() + static_cast<int64_t>(t) * bytes;

  if (files.frames.empty()) {  // one picture per frame
    for (size_t first = 0; first < files.paths.size(); first += temporal, out += group_values) {
      for (size_t t = 0; t < temporal; ++t)
        decode_picture(files.paths[first + t], resized.get() + static_cast<int64_t>(t) * bytes);
      media::write_patches(group, files.target, rules.shape, levels, out);
    }
    return;
  }
  const auto at_once = std::max<size_t>(static_cast<size_t>(kDecodedBytes / source_bytes) / temporal, 1) * temporal;
  for (size_t first = 0; first < files.frames.size(); first += at_once) {
    const size_t count = std::min(at_once, files.frames.size() - first);
    family::Pixels pixels;
    media_.decode_video(files.paths.front(), {&files.frames[first], count}, files.size, pixels);
    for (size_t i = 0; i < count; i += temporal, out += group_values) {
      for (size_t t = 0; t < temporal; ++t)
        media::resize_bicubic(pixels.data() + static_cast<int64_t>(i + t) * source_bytes, files.size,
                              resized.get() + static_cast<int64_t>(t) * bytes, files.target, order);
      media::write_patches(group, files.target, rules.shape, levels, out);
    }
  }
}

}  // namespace lf::qwen_vl
