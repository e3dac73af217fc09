// Pictures and videos of files, read through the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lf/plugin_api/media.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "media/smart_resize.h"

namespace lf::family {

// A decoded tensor, let go of at the end.
struct Pixels {
  lf_tensor tensor = sdk::with_header<lf_tensor>();
  Pixels() = default;
  Pixels(const Pixels&) = delete;
  ~Pixels() { sdk::release(tensor); }
  const uint8_t* data() const { return static_cast<const uint8_t*>(tensor.data); }
};

// [any thread]. Throw LF_E_DATA, naming the file.
class MediaAccess {
 public:
  // `host` outlives it; a host without lf.media/1 is an error once a sample has pictures (LF_E_UNSUPPORTED).
  explicit MediaAccess(const lf_host* host);

  lf_media_info probe(const std::string& path, int32_t kind) const;
  // What the headers of a video's frames say, each a picture: one size, and an error names the first that has another.
  // `chosen`: places in `paths`, at least one.
  lf_media_info probe_frames(std::span<const std::string> paths, std::span<const int64_t> chosen) const;
  // u8 [height, width, 3]; size: what the header said.
  void decode_image(const std::string& path, media::Size size, Pixels& out) const;
  // u8 [frames, height, width, 3].
  void decode_video(const std::string& path, std::span<const int64_t> frames, media::Size size, Pixels& out) const;

 private:
  const lf_media_host& media() const;

  const lf_host* host_;
  const lf_media_host* media_;
};

}  // namespace lf::family
