// Pictures and videos of files: what they will be, from their headers; and their patches.
#pragma once

#include <string>
#include <vector>

#include "family/media_access.h"
#include "family/sequence.h"
#include "qwen_vl/processor/vision_rules.h"

namespace lf::qwen_vl {

using family::MediaFiles;
using family::VisionInput;

// Reads through the host. [any thread]
class VisionFiles {
 public:
  // `host` outlives it; a host without lf.media/1 is an error once a sample has pictures (LF_E_UNSUPPORTED).
  explicit VisionFiles(const lf_host* host) : media_(host) {}

  // From headers alone. fps 0: the rules' rate. Throw LF_E_DATA, naming the file.
  VisionInput plan_image(const std::string& path, const VisionRules& rules) const;
  VisionInput plan_video(const std::string& path, double fps, const VisionRules& rules) const;
  VisionInput plan_frames(const std::vector<std::string>& paths, double fps, const VisionRules& rules) const;

  // Decodes, resizes and writes f32 [input.patches(), shape.values()]. input.source holds MediaFiles.
  void write_rows(const VisionInput& input, const VisionRules& rules, float* out) const;

 private:
  family::MediaAccess media_;
};

}  // namespace lf::qwen_vl
