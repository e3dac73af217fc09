#include "qwen_vl/processor/vision_rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_file.h"
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

// What reading found, and how its mistakes are said.
struct Report {
  family::Findings& findings;

  void refuse(const std::string& place, const std::string& expected, const json& got) const {
    findings.add(place, fmt::format("{}: expected {}, got {}", place, expected, got.dump().substr(0, 60)));
  }
  void set_count(const json& value, const std::string& place, int64_t most, int64_t& to) const;
  bool is_level(const json& value, const std::string& place) const;
  void set_triple(const json& value, const std::string& place, std::array<double, 3>& to) const;
  // Of the job; zero where nothing is said.
  template <typename T>
  T option(const json& data, const char* key) const;
};

// What files may ask for at most; products of them with a token's pixels do not overflow.
constexpr int64_t kMostPixels = int64_t{1} << 32, kMostFrames = 1 << 20, kMostTokens = 1 << 24;
constexpr double kMostRate = 1000;  // frames a second, as data.video_fps
constexpr double kMostLevel = 1e6;  // of means, deviations and scales, and over 1 their least

void Report::set_count(const json& value, const std::string& place, int64_t most, int64_t& to) const {
  // A number of 2^63 and more is unsigned here, and would be negative as int64_t.
  const bool fits = value.is_number_integer() && value.get<int64_t>() >= 1 &&
                    (value.is_number_unsigned() ? value.get<uint64_t>() : 1) <= static_cast<uint64_t>(most);
  if (!fits) return refuse(place, fmt::format("a whole number from 1 to {}", most), value);
  to = value.get<int64_t>();
}

bool Report::is_level(const json& value, const std::string& place) const {
  if (value.is_number() && value.get<double>() >= 1 / kMostLevel && value.get<double>() <= kMostLevel) return true;
  refuse(place, fmt::format("a number from {} to {}", 1 / kMostLevel, kMostLevel), value);
  return false;
}

void Report::set_triple(const json& value, const std::string& place, std::array<double, 3>& to) const {
  if (!value.is_array() || value.size() != 3 || !std::all_of(value.begin(), value.end(), [](const json& v) {
        return v.is_number() && std::abs(v.get<double>()) <= kMostLevel;
      }))
    return refuse(place, fmt::format("three numbers of at most {}", kMostLevel), value);
  to = value.get<std::array<double, 3>>();
}

// Whose file: Qwen2VLImageProcessor's (of pictures in every generation), Qwen2VLVideoProcessor's,
// Qwen3VLVideoProcessor's.
enum class Reader { kPictures, kQwen2Videos, kQwen3Videos };

// Overwrites what the object gives. Passed over is what its class does not read either (do_pad, do_center_crop).
void apply(const json& object, const std::string& file, Reader reader, const media::PatchShape& shape, Section& out,
           const Report& report) {
  if (!object.is_object()) return report.refuse(file, "an object", object);
  const auto given = [&](const char* key) -> const json* {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };
  const auto place = [&](const char* key) { return fmt::format("{}: {}", file, key); };
  const auto limit = [&](const json& from, const char* key, int64_t& to, int64_t most_of_it = kMostPixels) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return false;
    report.set_count(*found, place(key), most_of_it, to);
    return true;
  };
  // Limits of their own count before those in `size`; min_pixels and max_pixels in there are of older files.
  bool least = true, most = true;
  const json* size = given("size");
  if (size != nullptr && !size->is_object()) {
    report.refuse(place("size"), "an object", *size);
  } else if (size != nullptr) {
    least = most = false;
    for (const char* key : {"min_pixels", "shortest_edge"}) least = limit(*size, key, out.limits.least) || least;
    for (const char* key : {"max_pixels", "longest_edge"}) most = limit(*size, key, out.limits.most) || most;
  }
  if (reader == Reader::kQwen3Videos) {
    for (const char* key : {"min_pixels", "max_pixels"})
      if (given(key) != nullptr)
        report.findings.remark(
            fmt::format("{} has no effect on videos of Qwen3-VL, as in transformers: write it as size.{}", place(key),
                        key[1] == 'i' ? "shortest_edge" : "longest_edge"));
  } else {
    least = limit(object, "min_pixels", out.limits.least) || least;
    most = limit(object, "max_pixels", out.limits.most) || most;
  }
  if (!least || !most) report.refuse(place("size"), "shortest_edge and longest_edge, in pixels", *size);
  const auto same = [&](const char* key, int64_t model) {
    if (const json* value = given(key); value != nullptr && *value != model)
      report.refuse(place(key), fmt::format("{} as in the model's config.json", model), *value);
  };
  same("patch_size", shape.patch);
  same("merge_size", shape.merge);
  same("temporal_patch_size", shape.temporal);
  for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (const json* value = given(key); value != nullptr && *value != true) report.refuse(place(key), "true", *value);
  if (const json* value = given("resample"); value != nullptr && *value != kBicubic)
    report.refuse(place("resample"), "3 (bicubic)", *value);
  if (const json* value = given("rescale_factor"); value != nullptr && report.is_level(*value, place("rescale_factor")))
    out.scale = *value;
  if (const json* value = given("image_mean")) report.set_triple(*value, place("image_mean"), out.mean);
  if (const json* value = given("image_std")) {
    report.set_triple(*value, place("image_std"), out.deviation);
    for (const json& one : *value) report.is_level(one, place("image_std"));
  }
  if (reader != Reader::kPictures)
    if (const json* value = given("num_frames"))
      report.refuse(place("num_frames"), "none: frames are looked at by their rate (fps, data.video_fps)", *value);
  if (reader == Reader::kQwen3Videos)
    if (const json* value = given("do_sample_frames"); value != nullptr && *value != true)
      report.refuse(place("do_sample_frames"), "true", *value);
  if (const json* value = given("fps")) {
    if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() > kMostRate)
      report.refuse(place("fps"), fmt::format("a number above 0 and up to {}", kMostRate), *value);
    else
      out.frames.frames_per_second = *value;
  }
  limit(object, "min_frames", out.frames.least, kMostFrames);
  limit(object, "max_frames", out.frames.most, kMostFrames);
  limit(object, "max_video_tokens", out.max_video_tokens, kMostTokens);
  if (const json* value = given("cap_pixels_per_frame")) {
    if (!value->is_boolean())
      report.refuse(place("cap_pixels_per_frame"), "true or false", *value);
    else
      out.cap_frames = *value;
  }
}

template <typename T>
T Report::option(const json& data, const char* key) const {
  const auto found = data.find(key);
  if (found == data.end() || found->is_null()) return 0;
  if (found->is_number() && found->get<double>() >= 0) return found->get<T>();
  refuse(fmt::format("data.{}", key), "a number from 0", *found);
  return 0;
}

// How many pixels a picture may have: as `file` says (empty: there is none), unless the job does.
media::PixelLimits picture_limits(media::PixelLimits limits, const std::string& file, const json& data,
                                  const Report& report) {
  const auto least = report.option<int64_t>(data, "image_min_pixels"),
             most = report.option<int64_t>(data, "image_max_pixels");
  if (least > 0) limits.least = least;
  if (most > 0) limits = {std::min(limits.least, most), most};
  if (limits.least > limits.most && least > 0)
    report.findings.add("data.image_min_pixels",
                        fmt::format("data.image_min_pixels: {} is above the most pixels of an image, {}; raise "
                                    "data.image_max_pixels",
                                    limits.least, limits.most));
  else if (limits.least > limits.most && report.findings.sound(file + ": min_pixels") &&
           report.findings.sound(file + ": max_pixels"))
    report.findings.add(file + ": min_pixels",
                        fmt::format("{}: expected at least as many of the most pixels of an image as of the least, got "
                                    "{} of the most and {} of the least; correct its min_pixels and max_pixels (or "
                                    "size), or set data.image_max_pixels",
                                    file, limits.most, limits.least));
  return limits;
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
                              family::Findings& findings) {
  const Report report{findings};
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

  std::string picture_file;
  if (!folder.empty()) {
    constexpr auto kPictures = Reader::kPictures;
    const Reader videos = rules.qwen3 ? Reader::kQwen3Videos : Reader::kQwen2Videos;
    const auto both = family::read_json_object(folder / "processor_config.json");
    const auto nested = [&](const char* key) { return both && both->contains(key); };
    if (nested("image_processor")) {
      picture_file = (folder / "processor_config.json").string();
      apply((*both)["image_processor"], picture_file, kPictures, rules.shape, image, report);
    } else if (const auto own = family::read_json_object(folder / "preprocessor_config.json")) {
      picture_file = (folder / "preprocessor_config.json").string();
      apply(*own, picture_file, kPictures, rules.shape, image, report);
    }
    video.scale = image.scale;  // where videos have no file of their own, pictures' normalisation holds for them
    video.mean = image.mean;
    video.deviation = image.deviation;
    if (nested("video_processor")) {
      apply((*both)["video_processor"], (folder / "processor_config.json").string(), videos, rules.shape, video,
            report);
    } else if (const auto own = family::read_json_object(folder / "video_preprocessor_config.json")) {
      apply(*own, (folder / "video_preprocessor_config.json").string(), videos, rules.shape, video, report);
    }
  }

  rules.image = picture_limits(image.limits, picture_file, data, report);
  rules.video = video.limits;
  rules.job_frame = {report.option<int64_t>(data, "video_min_pixels"),
                     report.option<int64_t>(data, "video_max_pixels")};
  rules.frames = video.frames;
  if (const auto fps = report.option<double>(data, "video_fps"); fps > 0) rules.frames.frames_per_second = fps;
  if (const auto most = report.option<int64_t>(data, "video_max_frames"); most > 0) {
    rules.frames.most = std::max(most, rules.shape.temporal);
    rules.frames.least = std::min(rules.frames.least, rules.frames.most);
  }
  rules.cap_frames = video.cap_frames;
  rules.max_video_tokens = video.max_video_tokens;
  findings.refuse_if_any();
  rules.image_levels = media::make_levels(image.scale, image.mean, image.deviation);
  rules.video_levels = media::make_levels(video.scale, video.mean, video.deviation);
  return rules;
}

}  // namespace lf::qwen_vl
