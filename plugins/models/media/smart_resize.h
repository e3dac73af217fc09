// Which size a picture or a video is resized to before it is cut into patches: sides in multiples of a factor, an area
// within limits, the aspect ratio kept as well as that allows. Pure.
//
// Source: the reference processors of Qwen2-VL and Qwen3-VL (transformers 5.24: image_processing_pil_qwen2_vl.py,
// video_processing_qwen2_vl.py, video_processing_qwen3_vl.py).
#pragma once

#include <cstdint>

namespace lf::media {

struct Size {
  int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

struct PixelLimits {
  int64_t least = 0, most = 0;  // pixels
};

// Side against side, above which a picture is refused.
inline constexpr double kMaxAspectRatio = 200;

// A picture. Throws sdk::Failure LF_E_DATA for an empty one or one beyond kMaxAspectRatio.
Size smart_resize(Size size, int64_t factor, PixelLimits limits);

// A video of `frames` frames, whose limits hold for all of its frames together (Qwen3-VL). `temporal_factor`: frames
// per patch.
Size smart_resize_video(int64_t frames, Size size, int64_t temporal_factor, int64_t factor, PixelLimits limits);

}  // namespace lf::media
