#include "pi05/data/embedded_picture.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

// The host opens pictures by their paths: these bytes get one in memory.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(::memfd_create("lf_picture", MFD_CLOEXEC)) {
    if (file_ < 0) throw sdk::Failure(LF_E_NOMEM_HOST, std::strerror(errno));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int code = errno;
        ::close(file_);
        throw sdk::Failure(LF_E_NOMEM_HOST, std::strerror(code));
      }
      done += static_cast<size_t>(put);
    }
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

}  // namespace

void decode_embedded(const family::MediaAccess& media, const std::string& bytes, media::Size size,
                     const std::string& place, family::Pixels& out) {
  const MemoryFile file(bytes);
  const std::string path = file.path();
  try {
    const lf_media_info info = media.probe(path, LF_MEDIA_IMAGE);
    if (info.height != size.height || info.width != size.width)
      throw sdk::Failure(LF_E_DATA, fmt::format("{}: expected the {} x {} pixels of meta/info.json, got {} x {}", path,
                                                size.width, size.height, info.width, info.height));
    media.decode_image(path, size, out);
  } catch (const sdk::Failure& failure) {
    std::string_view said = failure.what();
    if (said.starts_with(path)) said.remove_prefix(path.size());
    if (said.starts_with(": ")) said.remove_prefix(2);
    throw sdk::Failure(failure.code(), fmt::format("{}: {}", place, said));
  }
}

}  // namespace lf::robot
