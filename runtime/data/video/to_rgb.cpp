#include "data/video/to_rgb.h"

#include <fmt/format.h>

extern "C" {
#include <libavutil/imgutils.h>
}

#include <cstring>
#include <new>

namespace lf::video {
namespace {

constexpr int kFlags = SWS_BICUBIC | SWS_FULL_CHR_H_INT | SWS_ACCURATE_RND;

}  // namespace

ToRgb::ToRgb(const Input& input) : input_(input) {
  if (av_image_alloc(rows_, strides_, input.width(), input.height(), AV_PIX_FMT_RGB24, 64) < 0) throw std::bad_alloc();
}

ToRgb::~ToRgb() {
  sws_freeContext(scaler_);
  av_freep(&rows_[0]);
}

void ToRgb::convert(const AVFrame& frame, uint8_t* out) {
  const int width = input_.width(), height = input_.height();
  if (frame.width != width || frame.height != height)
    input_.fail(
        fmt::format("a frame of {} x {} pixels in a video of {} x {}", frame.width, frame.height, width, height));
  scaler_ = sws_getCachedContext(scaler_, width, height, static_cast<AVPixelFormat>(frame.format), width, height,
                                 AV_PIX_FMT_RGB24, kFlags, nullptr, nullptr, nullptr);
  if (scaler_ == nullptr) input_.fail(fmt::format("cannot turn pixel format {} into RGB", frame.format));
  const int matrix = frame.colorspace == AVCOL_SPC_UNSPECIFIED || frame.colorspace == AVCOL_SPC_RGB
                         ? SWS_CS_DEFAULT
                         : static_cast<int>(frame.colorspace);
  int *from = nullptr, *to = nullptr, from_range = 0, to_range = 0, brightness = 0, contrast = 0, saturation = 0;
  if (sws_getColorspaceDetails(scaler_, &from, &from_range, &to, &to_range, &brightness, &contrast, &saturation) >= 0) {
    // The scaler already knows the range of formats that imply one; the frame can only widen it.
    const int range = frame.color_range == AVCOL_RANGE_JPEG ? 1 : from_range;
    sws_setColorspaceDetails(scaler_, sws_getCoefficients(matrix), range, to, to_range, brightness, contrast,
                             saturation);
  }
  sws_scale(scaler_, frame.data, frame.linesize, 0, height, rows_, strides_);
  const size_t row_bytes = static_cast<size_t>(width) * 3;
  for (int y = 0; y < height; ++y) std::memcpy(out + y * row_bytes, rows_[0] + int64_t{y} * strides_[0], row_bytes);
}

}  // namespace lf::video
