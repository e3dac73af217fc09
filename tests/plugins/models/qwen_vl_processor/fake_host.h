// A host that lends lf.media/1 from memory: pictures are formulas, paths are keys.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lf/plugin_api/media.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::test {

struct FakeFile {
  int64_t width = 0, height = 0;
  int64_t frames = 1;
  double fps = 0;             // above 0: a video
  int64_t decoded_width = 0;  // where the header lies
  bool broken = false;        // fails to decode
};

// The byte of a pixel: differs between files, frames, places and channels.
inline uint8_t fake_pixel(int64_t width, int64_t frame, int64_t y, int64_t x, int64_t c) {
  return static_cast<uint8_t>(width * 7 + frame * 31 + y * 5 + x * 3 + c * 80);
}

class FakeHost {
 public:
  FakeHost() {
    host_ = sdk::with_header<lf_host>();
    host_.context = this;
    host_.get_extension = [](const lf_host* host, lf_str id) -> const void* {
      auto* self = static_cast<FakeHost*>(host->context);
      return self->lends_media && sdk::view(id) == LF_MEDIA_EXTENSION ? &self->media_ : nullptr;
    };
    host_.log = [](const lf_host* host, int32_t, lf_str text) {
      auto* self = static_cast<FakeHost*>(host->context);
      const std::lock_guard lock(self->mutex_);
      self->logged.emplace_back(sdk::view(text));
    };
    media_ = sdk::with_header<lf_media_host>();
    media_.probe = [](const lf_host* host, lf_str path, int32_t kind, lf_media_info* out, lf_err* err) -> int32_t {
      return sdk::guard(err, [&] {
        const FakeFile& file = find(host, path);
        if ((file.fps > 0) != (kind == LF_MEDIA_VIDEO))
          throw sdk::Failure(LF_E_DATA, std::string(sdk::view(path)) + ": another kind");
        out->kind = kind;
        out->width = static_cast<int32_t>(file.width);
        out->height = static_cast<int32_t>(file.height);
        out->frames = file.frames;
        out->frames_per_second = file.fps;
      });
    };
    media_.decode_image = [](const lf_host* host, lf_str path, lf_tensor* out, lf_err* err) -> int32_t {
      return sdk::guard(err, [&] { *out = decode(find(host, path), path, {0}, false); });
    };
    media_.decode_video = [](const lf_host* host, lf_str path, const int64_t* frames, uint64_t n, lf_tensor* out,
                             lf_err* err) -> int32_t {
      return sdk::guard(err, [&] {
        auto* self = static_cast<FakeHost*>(host->context);
        self->video_calls++;
        *out = decode(find(host, path), path, {frames, frames + n}, true);
      });
    };
  }
  const lf_host* host() const { return &host_; }

  std::map<std::string, FakeFile, std::less<>> files;
  std::vector<std::string> logged;
  std::atomic<int> video_calls{0};
  bool lends_media = true;

 private:
  static const FakeFile& find(const lf_host* host, lf_str path) {
    auto* self = static_cast<FakeHost*>(host->context);
    const auto found = self->files.find(sdk::view(path));
    if (found == self->files.end()) throw sdk::Failure(LF_E_DATA, std::string(sdk::view(path)) + ": no such file");
    return found->second;
  }
  static lf_tensor decode(const FakeFile& file, lf_str path, const std::vector<int64_t>& frames, bool video) {
    if (file.broken) throw sdk::Failure(LF_E_DATA, std::string(sdk::view(path)) + ": damaged");
    const int64_t width = file.decoded_width > 0 ? file.decoded_width : file.width;
    std::vector<uint8_t> pixels;
    for (const int64_t frame : frames)
      for (int64_t y = 0; y < file.height; ++y)
        for (int64_t x = 0; x < width; ++x)
          for (int64_t c = 0; c < 3; ++c) pixels.push_back(fake_pixel(file.width, frame, y, x, c));
    std::vector<int64_t> shape{file.height, width, 3};
    if (video) shape.insert(shape.begin(), static_cast<int64_t>(frames.size()));
    return sdk::give(std::move(pixels), LF_DTYPE_U8, shape);
  }

  lf_host host_;
  lf_media_host media_;
  std::mutex mutex_;
};

}  // namespace lf::test
