// How the family treats pictures and videos: sizes, frames, patches, normalisation. From the model's own files and the
// job.
//
// Sources: preprocessor_config.json, video_preprocessor_config.json and processor_config.json as transformers 5.24
// reads them; without a file Qwen2VLImageProcessor's and Qwen3VLVideoProcessor's defaults, and for videos of Qwen2-VL
// and Qwen2.5-VL those of qwen-vl-utils 0.0.14, whose rule the published models were trained with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "family/findings.h"
#include "media/frames.h"
#include "media/patches.h"
#include "media/smart_resize.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

struct VisionRules {
  bool qwen3 = false;
  media::PatchShape shape;
  media::PixelLimits image;
  media::PixelLimits video;      // of a frame; of all frames together for Qwen3-VL
  media::PixelLimits job_frame;  // of a frame, as the job says; 0: nothing said
  media::FrameRule frames;
  bool cap_frames = false;       // Qwen3-VL: frames are also limited one by one
  int64_t max_video_tokens = 0;  // Qwen2-VL, Qwen2.5-VL: of a video; Qwen3-VL: of a frame, where they are capped
  media::Levels image_levels, video_levels;

  // Pixels after resizing. `frame_count`: frames looked at. Throw LF_E_DATA as media::smart_resize does.
  media::Size image_size(media::Size size) const;
  media::Size video_size(media::Size size, int64_t frame_count) const;
  // Frames of a video to look at.
  std::vector<int64_t> sample(int64_t total, double native_fps, double wanted_fps) const;
};

// `folder`: the model's, or empty. `data`: [data] of the job. Throws sdk::Failure LF_E_INVALID, naming file or option,
// for all that contradicts the model or is not offered, a line each; what a file says without effect is added to
// `findings` as remarks.
VisionRules read_vision_rules(const QwenVlConfig& config, const std::filesystem::path& folder,
                              const nlohmann::json& data, family::Findings& findings);

}  // namespace lf::qwen_vl
