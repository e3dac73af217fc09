#include "qwen_vl/processor/vision_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

constexpr int kBicubic = 3;  // PIL's number for it

// What one of the files says, or what holds without it.
struct Section {
  media::PixelLimits limits;
  double scale = 1 / 255.0;
  std::array<double, 3> mean, deviation;
  media::FrameRule frames;
  bool cap_frames = false;
  int64_t max_video_tokens = 0;
};

[[noreturn]] void refuse(const std::string& place, const std::string& expected, const json& got) {
  throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected {}, got {}", place, expected, got.dump().substr(0, 60)));
}

// What files may ask for at most; products of them with a token's pixels do not overflow.
constexpr int64_t kMostPixels = int64_t{1} << 32, kMostFrames = 1 << 20, kMostTokens = 1 << 24;
constexpr double kMostRate = 1000;  // frames a second, as data.video_fps
constexpr double kMostLevel = 1e6;  // of means, deviations and scales, and over 1 their least

int64_t positive_count(const json& value, const std::string& place, int64_t most) {
  // A number of 2^63 and more is unsigned here, and would be negative as int64_t.
  const bool fits = value.is_number_integer() && value.get<int64_t>() >= 1 &&
                    (value.is_number_unsigned() ? value.get<uint64_t>() : 1) <= static_cast<uint64_t>(most);
  if (!fits) refuse(place, fmt::format("a whole number from 1 to {}", most), value);
  return value.get<int64_t>();
}

double positive_level(const json& value, const std::string& place) {
  if (!value.is_number() || !(value.get<double>() >= 1 / kMostLevel) || value.get<double>() > kMostLevel)
    refuse(place, fmt::format("a number from {} to {}", 1 / kMostLevel, kMostLevel), value);
  return value;
}

std::array<double, 3> triple(const json& value, const std::string& place) {
  if (!value.is_array() || value.size() != 3 || !std::all_of(value.begin(), value.end(), [](const json& v) {
        return v.is_number() && std::abs(v.get<double>()) <= kMostLevel;
      }))
    refuse(place, fmt::format("three numbers of at most {}", kMostLevel), value);
  return value.get<std::array<double, 3>>();
}

// Whose file: Qwen2VLImageProcessor's (of pictures in every generation), Qwen2VLVideoProcessor's,
// Qwen3VLVideoProcessor's.
enum class Reader { kPictures, kQwen2Videos, kQwen3Videos };

// Overwrites what the object gives. Passed over is what its class does not read either (do_pad, do_center_crop).
void apply(const json& object, const std::string& file, Reader reader, const media::PatchShape& shape, Section& out,
           family::Findings& remarks) {
  if (!object.is_object()) refuse(file, "an object", object);
  const auto given = [&](const char* key) -> const json* {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };
  const auto place = [&](const char* key) { return fmt::format("{}: {}", file, key); };
  const auto limit = [&](const json& from, const char* key, int64_t& to, int64_t most_of_it = kMostPixels) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return false;
    to = positive_count(*found, place(key), most_of_it);
    return true;
  };
  // Limits of their own count before those in `size`; min_pixels and max_pixels in there are of older files.
  bool least = true, most = true;
  const json* size = given("size");
  if (size != nullptr) {
    if (!size->is_object()) refuse(place("size"), "an object", *size);
    least = most = false;
    for (const char* key : {"min_pixels", "shortest_edge"}) least = limit(*size, key, out.limits.least) || least;
    for (const char* key : {"max_pixels", "longest_edge"}) most = limit(*size, key, out.limits.most) || most;
  }
  if (reader == Reader::kQwen3Videos) {
    for (const char* key : {"min_pixels", "max_pixels"})
      if (given(key) != nullptr)
        remarks.remark(fmt::format("{} has no effect on videos of Qwen3-VL, as in transformers: write it as size.{}",
                                   place(key), key[1] == 'i' ? "shortest_edge" : "longest_edge"));
  } else {
    least = limit(object, "min_pixels", out.limits.least) || least;
    most = limit(object, "max_pixels", out.limits.most) || most;
  }
  if (!least || !most) refuse(place("size"), "shortest_edge and longest_edge, in pixels", *size);
  const auto same = [&](const char* key, int64_t model) {
    if (const json* value = given(key); value != nullptr && *value != model)
      refuse(place(key), fmt::format("{} as in the model's config.json", model), *value);
  };
  same("patch_size", shape.patch);
  same("merge_size", shape.merge);
  same("temporal_patch_size", shape.temporal);
  for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (const json* value = given(key); value != nullptr && *value != true) refuse(place(key), "true", *value);
  if (const json* value = given("resample"); value != nullptr && *value != kBicubic)
    refuse(place("resample"), "3 (bicubic)", *value);
  if (const json* value = given("rescale_factor")) {
    out.scale = positive_level(*value, place("rescale_factor"));
  }
  if (const json* value = given("image_mean")) out.mean = triple(*value, place("image_mean"));
  if (const json* value = given("image_std")) {
    out.deviation = triple(*value, place("image_std"));
    for (const json& one : *value) positive_level(one, place("image_std"));
  }
  if (reader != Reader::kPictures)
    if (const json* value = given("num_frames"))
      refuse(place("num_frames"), "none: frames are looked at by their rate (fps, data.video_fps)", *value);
  if (reader == Reader::kQwen3Videos)
    if (const json* value = given("do_sample_frames"); value != nullptr && *value != true)
      refuse(place("do_sample_frames"), "true", *value);
  if (const json* value = given("fps")) {
    if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > kMostRate)
      refuse(place("fps"), fmt::format("a number above 0 and up to {}", kMostRate), *value);
    out.frames.frames_per_second = *value;
  }
  limit(object, "min_frames", out.frames.least, kMostFrames);
  limit(object, "max_frames", out.frames.most, kMostFrames);
  limit(object, "max_video_tokens", out.max_video_tokens, kMostTokens);
  if (const json* value = given("cap_pixels_per_frame")) {
    if (!value->is_boolean()) refuse(place("cap_pixels_per_frame"), "true or false", *value);
    out.cap_frames = *value;
  }
}

std::optional<json> read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  try {
    return json::parse(in);
  } catch (const json::exception& error) {
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected JSON: {}", path.string(), error.what()));
  }
}

template <typename T>
T option(const json& data, const char* key, T otherwise) {
  const auto found = data.find(key);
  if (found == data.end() || found->is_null()) return otherwise;
  if (!found->is_number() || found->get<double>() < 0) refuse(fmt::format("data.{}", key), "a number from 0", *found);
  return found->get<T>();
}

}  // namespace

media::Size VisionRules::image_size(media::Size size) const { return media::smart_resize(size, shape.factor(), image); }

media::Size VisionRules::video_size(media::Size size, int64_t frame_count) const {
  const int64_t factor = shape.factor(), area = factor * factor;
  media::PixelLimits limits = video;
  if (qwen3) {
    if (cap_frames) {
      const int64_t share = std::min(max_video_tokens * area, limits.most / frame_count);
      limits.most = std::max(share, static_cast<int64_t>(static_cast<double>(limits.least) * 1.05)) * frame_count;
    }
    if (job_frame.least > 0) limits.least = job_frame.least * frame_count;
    if (job_frame.most > 0) limits.most = std::min(limits.most, job_frame.most * frame_count);
    limits.least = std::min(limits.least, limits.most);
    return media::smart_resize_video(frame_count, size, shape.temporal, factor, limits);
  }
  if (job_frame.least > 0) limits.least = job_frame.least;
  // Nine tenths of the tokens of a whole video, each of `temporal` frames of `area` pixels, shared by its frames.
  const double share = static_cast<double>(max_video_tokens * area) * 0.9 / static_cast<double>(frame_count) *
                       static_cast<double>(shape.temporal);
  const auto floor =
      static_cast<int64_t>(static_cast<double>(limits.least) * 1.05);  // of the share, not of what is said
  limits.most = std::min(limits.most, std::max(static_cast<int64_t>(share), floor));
  if (job_frame.most > 0) limits.most = std::min(limits.most, job_frame.most);
  limits.least = std::min(limits.least, limits.most);
  return media::smart_resize(size, factor, limits);
}

std::vector<int64_t> VisionRules::sample(int64_t total, double native_fps, double wanted_fps) const {
  media::FrameRule rule = frames;
  rule.frames_per_second = wanted_fps;
  return qwen3 ? media::sample_frames_qwen3(total, native_fps, rule)
               : media::sample_frames_qwen2(total, native_fps, rule);
}

VisionRules read_vision_rules(const QwenVlConfig& config, const std::filesystem::path& folder, const json& data,
                              family::Findings& remarks) {
  VisionRules rules;
  rules.qwen3 = is_qwen3(config.family);
  rules.shape = {config.vision.patch_size, config.vision.spatial_merge_size, config.vision.temporal_patch_size};
  if (config.vision.in_channels != 3)
    throw sdk::Failure(LF_E_INVALID, fmt::format("config.json: vision_config.in_channels: expected 3, got {}",
                                                 config.vision.in_channels));
  const int64_t area = rules.shape.factor() * rules.shape.factor();

  Section image;
  image.limits = {4 * area, 1280 * area};
  if (rules.qwen3) {
    image.mean = image.deviation = {0.5, 0.5, 0.5};
  } else {
    image.mean = {0.48145466, 0.4578275, 0.40821073};
    image.deviation = {0.26862954, 0.26130258, 0.27577711};
  }
  Section video = image;
  video.limits = {128 * area, 768 * area};
  video.frames.factor = rules.shape.temporal;
  video.max_video_tokens = rules.qwen3 ? 768 : 128'000;

  if (!folder.empty()) {
    constexpr auto kPictures = Reader::kPictures;
    const Reader videos = rules.qwen3 ? Reader::kQwen3Videos : Reader::kQwen2Videos;
    const auto both = read_file(folder / "processor_config.json");
    const auto nested = [&](const char* key) { return both && both->is_object() && both->contains(key); };
    if (nested("image_processor")) {
      apply((*both)["image_processor"], (folder / "processor_config.json").string(), kPictures, rules.shape, image,
            remarks);
    } else if (const auto own = read_file(folder / "preprocessor_config.json")) {
      apply(*own, (folder / "preprocessor_config.json").string(), kPictures, rules.shape, image, remarks);
    }
    video.scale = image.scale;  // where videos have no file of their own, pictures' normalisation holds for them
    video.mean = image.mean;
    video.deviation = image.deviation;
    if (nested("video_processor")) {
      apply((*both)["video_processor"], (folder / "processor_config.json").string(), videos, rules.shape, video,
            remarks);
    } else if (const auto own = read_file(folder / "video_preprocessor_config.json")) {
      apply(*own, (folder / "video_preprocessor_config.json").string(), videos, rules.shape, video, remarks);
    }
  }

  rules.image = image.limits;
  if (const auto least = option<int64_t>(data, "image_min_pixels", 0); least > 0) rules.image.least = least;
  if (const auto most = option<int64_t>(data, "image_max_pixels", 0); most > 0) {
    rules.image.most = most;
    rules.image.least = std::min(rules.image.least, most);
  }
  if (rules.image.least > rules.image.most)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("data.image_min_pixels: {} is above the most pixels of an image, {}; raise "
                                   "data.image_max_pixels",
                                   rules.image.least, rules.image.most));
  rules.video = video.limits;
  rules.job_frame = {option<int64_t>(data, "video_min_pixels", 0), option<int64_t>(data, "video_max_pixels", 0)};
  rules.frames = video.frames;
  if (const auto fps = option<double>(data, "video_fps", 0); fps > 0) rules.frames.frames_per_second = fps;
  if (const auto most = option<int64_t>(data, "video_max_frames", 0); most > 0) {
    rules.frames.most = std::max(most, rules.shape.temporal);
    rules.frames.least = std::min(rules.frames.least, rules.frames.most);
  }
  rules.cap_frames = video.cap_frames;
  rules.max_video_tokens = video.max_video_tokens;
  rules.image_levels = media::make_levels(image.scale, image.mean, image.deviation);
  rules.video_levels = media::make_levels(video.scale, video.mean, video.deviation);
  return rules;
}

}  // namespace lf::qwen_vl
