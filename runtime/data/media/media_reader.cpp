#include "data/media/media_reader.h"

#include <cerrno>
#include <cstring>
#include <mutex>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/media/image.h"
#include "data/path_text.h"
#include "data/video/video_library.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr const char* kVideoFile = "liblfvideo.so";

// Beside the object that holds this code, or in the lib folder beside its folder.
std::filesystem::path video_library_path() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&video_library_path), &self) == 0) return kVideoFile;
  const std::filesystem::path here = std::filesystem::absolute(self.dli_fname).parent_path();
  for (const std::filesystem::path& candidate : {here / kVideoFile, here.parent_path() / "lib" / kVideoFile})
    if (std::filesystem::exists(candidate)) return candidate;
  return here / kVideoFile;
}

// A video as FFmpeg opens it, by a path: held bytes get one as a file in memory.
class OpenedVideo {
 public:
  explicit OpenedVideo(const MediaFile& file) : path_(file.path()), name_(readable(file.path())) {
    const MediaFile::Identity& is = file.identity();
    const std::string* bytes = file.held();
    if (bytes != nullptr) {
      write_to_memory(file, *bytes);
      path_ = fmt::format("/proc/self/fd/{}", memory_);
    }
    file_ = {.path = path_.c_str(),
             .name = name_.c_str(),
             .device = is.device,
             .inode = is.inode,
             .changed_ns = is.changed_ns,
             .size = static_cast<int64_t>(file.size()),
             .in_memory = bytes != nullptr};
  }
  ~OpenedVideo() {
    if (memory_ >= 0) ::close(memory_);
  }
  OpenedVideo(const OpenedVideo&) = delete;
  const VideoFile* get() const { return &file_; }

 private:
  void write_to_memory(const MediaFile& file, const std::string& bytes) {
    memory_ = ::memfd_create("lf_video", MFD_CLOEXEC);
    if (memory_ < 0) file.fail(std::strerror(errno));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::write(memory_, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int code = errno;
        ::close(memory_);
        file.fail(std::strerror(code));
      }
      done += static_cast<size_t>(put);
    }
  }

  std::string path_, name_;
  int memory_ = -1;
  VideoFile file_{};
};

const MediaReader& reader_of(const lf_host* host) { return Host::state_of<MediaReader>(host, LF_MEDIA_EXTENSION); }

int32_t probe(const lf_host* host, lf_str path, int32_t kind, lf_media_info* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = reader_of(host).probe(std::string(sdk::view(path)), kind); });
}

int32_t decode_image(const lf_host* host, lf_str path, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = reader_of(host).decode_image(std::string(sdk::view(path))); });
}

int32_t decode_video(const lf_host* host, lf_str path, const int64_t* frames, uint64_t n, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] { *out = reader_of(host).decode_video(std::string(sdk::view(path)), {frames, n}); });
}

constexpr lf_media_host kTable = {
    {sizeof(lf_media_host), LF_ABI_MAJOR, LF_ABI_MINOR}, probe, decode_image, decode_video};

}  // namespace

struct MediaReader::VideoLibrary {
  std::once_flag opened;
  const VideoTable* loaded = nullptr;
  void* index = nullptr;
  std::string reason;

  VideoLibrary() = default;
  VideoLibrary(const VideoLibrary&) = delete;
  ~VideoLibrary() {
    if (loaded != nullptr) loaded->close_index(index);
  }

  const VideoTable& table() {
    std::call_once(opened, [this] {
      const std::filesystem::path path = video_library_path();
      void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // for the life of the process
      void* entry = library != nullptr ? ::dlsym(library, kVideoEntryName) : nullptr;
      if (entry != nullptr)
        loaded = reinterpret_cast<decltype(&lf_video_table)>(entry)(), index = loaded->open_index();
      else
        reason = fmt::format("cannot read videos: {}; install FFmpeg's libraries (Debian: libavformat59)", ::dlerror());
    });
    if (loaded == nullptr) throw sdk::Failure(LF_E_UNSUPPORTED, reason);
    return *loaded;
  }
};

MediaReader::MediaReader(std::filesystem::path folder, int64_t max_pixels)
    : folder_(std::filesystem::current_path() / folder),
      max_pixels_(max_pixels),
      video_(std::make_unique<VideoLibrary>()) {}

MediaReader::~MediaReader() = default;

void MediaReader::offer_to(Host& host) { host.offer(LF_MEDIA_EXTENSION, &kTable, this); }

MediaFile MediaReader::open(const std::string& path) const {
  const std::string full = (folder_ / path_of(path)).lexically_normal().string();
  if (auto bytes = held_.find(full)) return MediaFile(full, std::move(bytes));
  return MediaFile(full);
}

lf_media_info MediaReader::probe(const std::string& path, int32_t kind) const {
  lf_media_info info = sdk::with_header<lf_media_info>();
  const MediaFile file = open(path);
  if (kind == LF_MEDIA_VIDEO) {
    const VideoLimits limits{max_pixels_, max_pixels_ * kClipFactor, max_pixels_ * kWorkFactor};
    lf_err err = sdk::make_err();
    const OpenedVideo video(file);
    const VideoTable& table = video_->table();
    sdk::check(table.probe(video_->index, video.get(), &limits, &info, &err), err);
    return info;
  }
  if (kind != LF_MEDIA_IMAGE) throw sdk::Failure(LF_E_INVALID, fmt::format("unknown kind of media {}", kind));
  const ImageHeader header = read_image_header(file, max_pixels_);
  info.kind = LF_MEDIA_IMAGE;
  info.width = header.width();
  info.height = header.height();
  info.frames = 1;
  return info;
}

lf_tensor MediaReader::decode_image(const std::string& path) const {
  const MediaFile file = open(path);
  const ImageHeader header = read_image_header(file, max_pixels_);
  return lf::decode_image(file, header).give({header.height(), header.width(), 3});
}

lf_tensor MediaReader::decode_video(const std::string& path, std::span<const int64_t> frames) const {
  const MediaFile file = open(path);
  const VideoLimits limits{max_pixels_, max_pixels_ * kClipFactor, max_pixels_ * kWorkFactor};
  lf_tensor out{};
  lf_err err = sdk::make_err();
  const auto stopped = [](const void* context) -> int32_t { return *static_cast<const std::atomic<bool>*>(context); };
  const OpenedVideo video(file);
  const VideoTable& table = video_->table();
  sdk::check(
      table.decode(video_->index, video.get(), &limits, frames.data(), frames.size(), stopped, &stopped_, &out, &err),
      err);
  return out;
}

}  // namespace lf
