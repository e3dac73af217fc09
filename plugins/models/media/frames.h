// Which frames of a video are looked at. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace lf::media {

struct FrameRule {
  double frames_per_second = 2;
  int64_t least = 4, most = 768;  // frames
  int64_t factor = 2;             // frames per temporal patch
};

// Qwen2-VL and Qwen2.5-VL: an even number of frames, spread from the first to the last. Source: qwen-vl-utils 0.0.14,
// smart_nframes and the readers' index rule (single precision, ties to even). A video shorter than `factor` gives its
// one frame.
std::vector<int64_t> sample_frames_qwen2(int64_t total, double native_fps, const FrameRule& rule);

// Qwen3-VL: any number of frames; the caller repeats the last to fill a temporal patch. Source: transformers 5.24,
// video_processing_qwen3_vl.py, sample_frames.
std::vector<int64_t> sample_frames_qwen3(int64_t total, double native_fps, const FrameRule& rule);

// InternVL: the middles of `count` equal stretches; at most all frames. Source: transformers 5.24,
// video_processing_internvl.py, sample_frames (single precision, cut off).
std::vector<int64_t> sample_frames_centred(int64_t total, int64_t count);

}  // namespace lf::media
