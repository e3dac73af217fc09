// Decoded frames to RGB.
#pragma once

#include "data/video/input.h"

extern "C" {
#include <libswscale/swscale.h>
}

namespace lf::video {

// BT.601 unless the frame names another matrix; full or limited range as the frame says. One per clip.
class ToRgb {
 public:
  ToRgb(const Input& input);
  ~ToRgb();
  ToRgb(const ToRgb&) = delete;
  ToRgb& operator=(const ToRgb&) = delete;

  // out: u8 [height, width, 3], as stored. Fails where the frame has another size than the stream declares.
  void convert(const AVFrame& frame, uint8_t* out);

 private:
  const Input& input_;
  SwsContext* scaler_ = nullptr;
  uint8_t* rows_[4] = {};  // aligned: the scaler's vector code writes beyond a row's end
  int strides_[4] = {};
};

}  // namespace lf::video
