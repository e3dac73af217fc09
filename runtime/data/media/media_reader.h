// What lends lf.media/1 to plugins: pictures and clips of one job, within its limits.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/host.h"
#include "data/media/file_bytes.h"
#include "data/media/held_media.h"
#include "data/media/pixels.h"
#include "lf/plugin_api/media.h"

namespace lf {

// Thread-safe. Every failure is sdk::Failure(LF_E_DATA) that starts with the path, but for LF_E_ABORTED when the job
// was asked to stop and LF_E_UNSUPPORTED where the video library cannot be loaded.
//
// Limits: one picture or frame has at most max_pixels; one decode_video call returns at most kClipFactor times as many
// pixels and decodes at most kWorkFactor times as many on the way.
class MediaReader {
 public:
  static constexpr int64_t kClipFactor = 10, kWorkFactor = 500;

  // Relative paths start at `folder`; a file:// URL is the path that it encodes. max_pixels: data.max_decoded_pixels.
  MediaReader(std::filesystem::path folder, int64_t max_pixels);
  ~MediaReader();

  // Offers the extension; the reader outlives the host.
  void offer_to(Host& host);

  // Media that are found by their names before files are looked for.
  HeldMedia& held() { return held_; }

  lf_media_info probe(const std::string& path, int32_t kind) const;
  // u8 [height, width, 3].
  lf_tensor decode_image(const std::string& path) const;
  // u8 [frames.size(), height, width, 3]. Frame k is the k-th in order of presentation.
  lf_tensor decode_video(const std::string& path, std::span<const int64_t> frames) const;

  // Videos being decoded end with LF_E_ABORTED, and so do later ones. Not tied to Host::cancel(): a job that was asked
  // to stop still trains the steps that its ranks agree on.
  void stop() { stopped_ = true; }

 private:
  struct VideoLibrary;
  MediaFile open(const std::string& path) const;

  std::filesystem::path folder_;
  int64_t max_pixels_;
  HeldMedia held_;
  std::unique_ptr<VideoLibrary> video_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace lf
