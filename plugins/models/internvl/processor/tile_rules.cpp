#include "internvl/processor/tile_rules.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"
#include "media/frames.h"

namespace lf::internvl {
namespace {

using family::JsonFields;
using nlohmann::json;

constexpr int kBicubic = 3;  // PIL's number for it

struct Normalisation {
  double scale = 1 / 255.0;
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
};

std::optional<json> read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  try {
    return json::parse(in);
  } catch (const json::exception& error) {
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected JSON: {}", path.string(), error.what()));
  }
}

std::array<double, 3> triple(JsonFields& fields, const json& object, const char* name,
                             const std::array<double, 3>& fallback) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_array() || found->size() != 3 ||
      !std::all_of(found->begin(), found->end(), [](const json& v) { return v.is_number(); }))
    fields.refuse(name, "three numbers");
  return found->get<std::array<double, 3>>();
}

// A side of the tiles, as { "height", "width" }, { "shortest_edge" } or a number.
void check_size(JsonFields& fields, const json& object, const char* name, int64_t tile) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  const json wanted = tile;
  const bool same = found->is_object()
                        ? std::all_of(found->begin(), found->end(), [&](const json& v) { return v == wanted; })
                        : *found == wanted;
  if (!same) fields.refuse(name, fmt::format("{} as in the model's config.json", tile));
}

void apply(const json& object, const std::string& file, TileRules& rules, Normalisation& levels) {
  JsonFields fields(object, file);
  check_size(fields, object, "size", rules.tile);
  check_size(fields, object, "crop_size", rules.tile);
  rules.least = fields.positive("min_patches", rules.least);
  rules.most = fields.positive("max_patches", rules.most);
  // crop_to_patches is left unread: files have GotOcr2ImageProcessor's own false, and InternVLProcessor tiles whatever
  // they say (images_kwargs of processing_internvl.py overrules them).
  for (const char* name : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    fields.only(name, {true}, "not built");
  fields.only("resample", {kBicubic}, "only bicubic is built");
  levels.scale = fields.positive_number("rescale_factor", levels.scale);
  levels.mean = triple(fields, object, "image_mean", levels.mean);
  levels.deviation = triple(fields, object, "image_std", levels.deviation);
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
  int64_t count = video_frames;
  if (fps > 0) {
    if (!(native_fps > 0)) throw sdk::Failure(LF_E_DATA, "a video without a frame rate: expected a positive one");
    count = static_cast<int64_t>(static_cast<double>(total) / native_fps * fps);
  }
  return media::sample_frames_centred(total, std::min(count, max_frames));
}

TileRules read_tile_rules(const InternVlConfig& config, const std::filesystem::path& folder, const json& data,
                          const TileOptions& options) {
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
    if (const auto both = read_file(folder / "processor_config.json");
        both && both->is_object() && both->contains("image_processor")) {
      apply((*both)["image_processor"], (folder / "processor_config.json").string(), rules, levels);
    } else if (const auto own = read_file(folder / "preprocessor_config.json")) {
      apply(*own, (folder / "preprocessor_config.json").string(), rules, levels);
    }
  }
  JsonFields job(data, "data");
  if (const int64_t most = job.at_least("image_max_pixels", 0, 0); most > 0)
    rules.most = std::min(rules.most, std::max<int64_t>(most / (rules.tile * rules.tile), 1));
  if (options.most > 0) rules.most = options.most;
  rules.least = std::min(options.least > 0 ? options.least : rules.least, rules.most);
  rules.video_fps = job.number("video_fps", 0);
  if (const int64_t most = job.at_least("video_max_frames", 0, 0); most > 0) rules.max_frames = most;
  rules.levels = media::make_levels(levels.scale, levels.mean, levels.deviation);
  return rules;
}

}  // namespace lf::internvl
