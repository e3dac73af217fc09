// Named frames of a video, decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/media/pixels.h"
#include "data/video/input.h"

namespace lf::video {

// frames: ascending, repeats allowed, in order of presentation. u8 [frames.size(), height, width, 3], upright.
lf_tensor decode_clip(const char* path, const VideoLimits& limits, std::span<const int64_t> frames,
                      const std::function<bool()>& stopped);

}  // namespace lf::video
