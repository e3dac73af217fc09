// How pictures and videos become tiles: from the model's files and the job.
//
// Sources: config.json of the authors' layout (min_dynamic_patch, max_dynamic_patch, use_thumbnail,
// dynamic_image_size); preprocessor_config.json or processor_config.json as transformers 5.24 reads them
// (GotOcr2ImageProcessor: min_patches, max_patches, size, image_mean, image_std; InternVLProcessor tiles whatever
// crop_to_patches says); without a file, 1 to 12 tiles with a thumbnail and ImageNet's levels, as the published models
// have it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "family/findings.h"
#include "internvl/config.h"
#include "media/patches.h"
#include "media/tiles.h"

namespace lf::internvl {

struct TileOptions {
  int64_t least = 0, most = 0;  // of the job; 0: nothing said
  bool share = false;
};

struct TileRules {
  int64_t tile = 448;  // pixels of a side
  media::PatchShape shape;
  int64_t least = 1, most = 12;
  bool share = false;  // `most` is for all pictures of a sample together
  bool thumbnail = true;
  media::Levels levels;
  double video_fps = 0;                       // 0: video_frames whatever the length
  int64_t video_frames = 8, max_frames = 32;  // frames looked at

  // pictures: how many the sample has.
  media::TileGrid grid(media::Size picture, int64_t pictures) const;
  // With the thumbnail of a picture that was cut.
  int64_t tiles(media::TileGrid grid) const { return grid.count() + (thumbnail && grid.count() > 1 ? 1 : 0); }
  // wanted_fps 0: as the rules say.
  std::vector<int64_t> frames(int64_t total, double native_fps, double wanted_fps) const;
};

// `folder`: the model's, or empty. `data`: [data] of the job; image_max_pixels bounds the pixels of all tiles of a
// picture. Throws sdk::Failure LF_E_INVALID, naming file or option, a line each; what a video processor's file says
// without effect is added to `findings` as remarks.
TileRules read_tile_rules(const InternVlConfig& config, const std::filesystem::path& folder, const nlohmann::json& data,
                          const TileOptions& options, family::Findings& findings);

}  // namespace lf::internvl
