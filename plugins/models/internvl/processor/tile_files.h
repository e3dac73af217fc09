// Pictures and videos of files as tiles: how many, from their headers; and their patches.
#pragma once

#include <string>
#include <vector>

#include "family/media_access.h"
#include "family/sequence.h"
#include "internvl/processor/tile_rules.h"

namespace lf::internvl {

// A VisionInput here has one group for each tile. [any thread]
class TileFiles {
 public:
  explicit TileFiles(const lf_host* host) : media_(host) {}

  // From headers alone. Throw LF_E_DATA, naming the file. pictures: of the whole sample.
  family::VisionInput plan_image(const std::string& path, int64_t pictures, const TileRules& rules) const;
  family::VisionInput plan_video(const std::string& path, double fps, const TileRules& rules) const;
  family::VisionInput plan_frames(const std::vector<std::string>& paths, double fps, const TileRules& rules) const;

  // f32 [input.patches(), shape.values()] from files or ready tiles.
  void write_rows(const family::VisionInput& input, const TileRules& rules, float* out) const;

 private:
  family::MediaAccess media_;
};

}  // namespace lf::internvl
