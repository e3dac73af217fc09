// Named frames of a video, decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/media/pixels.h"
#include "data/video/index_cache.h"

namespace lf::video {

// frames: ascending, repeats allowed, in order of presentation. u8 [frames.size(), height, width, 3], upright.
// The file is read whole for its time stamps where `known` does not have them.
lf_tensor decode_clip(IndexCache& known, const VideoFile& file, const VideoLimits& limits,
                      std::span<const int64_t> frames, const std::function<bool()>& stopped);

}  // namespace lf::video
