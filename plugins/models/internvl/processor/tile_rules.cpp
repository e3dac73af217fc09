#include "internvl/processor/tile_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "family/json_file.h"
#include "lf/plugin_sdk/guard.hpp"
#include "media/frames.h"

namespace lf::internvl {
namespace {

using family::JsonFields;
using nlohmann::json;

constexpr int kBicubic = 3;         // PIL's number for it
constexpr double kMostLevel = 1e6;  // of means, deviations and scales, and over 1 the least of deviations

struct Normalisation {
  double scale = 1 / 255.0;
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
};

std::array<double, 3> triple(JsonFields& fields, const json& object, const char* name, double least,
                             const std::array<double, 3>& fallback) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_array() || found->size() != 3 || !std::all_of(found->begin(), found->end(), [&](const json& v) {
        return v.is_number() && v.get<double>() >= least && v.get<double>() <= kMostLevel;
      })) {
    fields.refuse(name, fmt::format("three numbers from {} to {}", least, kMostLevel));
    return fallback;
  }
  return found->get<std::array<double, 3>>();
}

// A side of the tiles, as { "height", "width" }, { "shortest_edge" } or a number.
bool is_side(const json& size, int64_t tile) {
  const json wanted = tile;
  return size.is_object() ? std::all_of(size.begin(), size.end(), [&](const json& v) { return v == wanted; })
                          : size == wanted;
}

void check_size(JsonFields& fields, const json& object, const char* name, int64_t tile) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  if (!is_side(*found, tile)) fields.refuse(name, fmt::format("{} as in the model's config.json", tile));
}

void apply(const json& object, const std::string& file, TileRules& rules, Normalisation& levels,
           family::Findings& findings) {
  JsonFields fields(object, file, &findings);
  check_size(fields, object, "size", rules.tile);
  check_size(fields, object, "crop_size", rules.tile);
  rules.least = fields.positive("min_patches", rules.least, media::kMostTiles);
  rules.most = fields.positive("max_patches", rules.most, media::kMostTiles);
  // crop_to_patches is left unread: files have GotOcr2ImageProcessor's own false, and InternVLProcessor tiles whatever
  // they say (images_kwargs of processing_internvl.py overrules them).
  for (const char* name : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    fields.only(name, {true}, "not built");
  fields.only("resample", {kBicubic}, "only bicubic is built");
  levels.scale = fields.positive_number("rescale_factor", levels.scale, kMostLevel);
  levels.mean = triple(fields, object, "image_mean", -kMostLevel, levels.mean);
  levels.deviation = triple(fields, object, "image_std", 1 / kMostLevel, levels.deviation);
}

// What transformers' video processor would do otherwise; tower and decoder have one tile's size and one way to
// normalise.
void remark_videos(const json& object, const std::string& file, const TileRules& rules, const Normalisation& pictures,
                   family::Findings& remarks) {
  JsonFields fields(object, file, &remarks);
  const auto differs = [&](const char* name, const std::string& here) {
    remarks.remark(fmt::format("{}.{} = {} has no effect: {}", file, name, object.at(name).dump(), here));
  };
  const auto other = [&](const char* name, const json& ours) { return fields.has(name) && object.at(name) != ours; };
  for (const char* name : {"num_frames", "fps"})
    if (fields.has(name) && object.value("do_sample_frames", json()) == true)
      differs(name, "8 frames of a video are looked at, or as many a second as data.video_fps says");
  if (other("image_mean", pictures.mean) || other("image_std", pictures.deviation))
    differs(other("image_mean", pictures.mean) ? "image_mean" : "image_std", "videos are normalised as pictures are");
  if (fields.has("size") && !is_side(object.at("size"), rules.tile))
    differs("size", fmt::format("frames are tiles of {} pixels, as in the model's config.json", rules.tile));
}

}  // namespace

media::TileGrid TileRules::grid(media::Size picture, int64_t pictures) const {
  const int64_t share_of = share ? std::max<int64_t>(pictures, 1) : 1;
  const int64_t limit = std::max<int64_t>(most / share_of, 1);
  return media::closest_grid(picture, tile, std::min(least, limit), limit);
}

std::vector<int64_t> TileRules::frames(int64_t total, double native_fps, double wanted_fps) const {
  if (total < 1) throw sdk::Failure(LF_E_DATA, "a video without frames");
  const double fps = wanted_fps > 0 ? wanted_fps : video_fps;
  auto count = static_cast<double>(video_frames);
  if (fps > 0) {
    if (!(native_fps > 0)) throw sdk::Failure(LF_E_DATA, "a video without a frame rate: expected a positive one");
    count = static_cast<double>(total) / native_fps * fps;
  }
  return media::sample_frames_centred(total, static_cast<int64_t>(std::min(count, static_cast<double>(max_frames))));
}

TileRules read_tile_rules(const InternVlConfig& config, const std::filesystem::path& folder, const json& data,
                          const TileOptions& options, family::Findings& findings) {
  if (config.vision.num_channels != 3)
    throw sdk::Failure(LF_E_INVALID, fmt::format("config.json: vision_config.num_channels: expected 3, got {}",
                                                 config.vision.num_channels));
  TileRules rules;
  rules.tile = config.tile_size;
  rules.shape = {config.vision.patch_size, config.merge, /*temporal=*/1};
  rules.least = config.tiles.least;
  rules.most = config.tiles.dynamic ? config.tiles.most : 1;
  rules.thumbnail = config.tiles.thumbnail;
  rules.share = options.share;
  Normalisation levels;
  if (!folder.empty()) {
    const auto both = family::read_json_object(folder / "processor_config.json");
    const auto nested = [&](const char* key) { return both && both->contains(key); };
    if (nested("image_processor")) {
      apply((*both)["image_processor"], (folder / "processor_config.json").string(), rules, levels, findings);
    } else if (const auto own = family::read_json_object(folder / "preprocessor_config.json")) {
      apply(*own, (folder / "preprocessor_config.json").string(), rules, levels, findings);
    }
    if (nested("video_processor")) {
      remark_videos((*both)["video_processor"], (folder / "processor_config.json").string() + ": video_processor",
                    rules, levels, findings);
    } else if (const auto own = family::read_json_object(folder / "video_preprocessor_config.json")) {
      remark_videos(*own, (folder / "video_preprocessor_config.json").string(), rules, levels, findings);
    }
  }
  JsonFields job(data, "data", &findings);
  if (const int64_t most = job.at_least("image_max_pixels", 0, 0); most > 0)
    rules.most = std::min(rules.most, std::max<int64_t>(most / (rules.tile * rules.tile), 1));
  if (options.most > 0) rules.most = options.most;
  rules.least = std::min(options.least > 0 ? options.least : rules.least, rules.most);
  rules.video_fps = job.number("video_fps", 0);
  if (const int64_t most = job.at_least("video_max_frames", 0, 0); most > 0) rules.max_frames = most;
  findings.refuse_if_any();
  rules.levels = media::make_levels(levels.scale, levels.mean, levels.deviation);
  return rules;
}

}  // namespace lf::internvl
