#include "plugins/sha256.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sha256.h>  // libmd
#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

// Empty: the file cannot be read, and errno says why.
std::string digest_of(int fd) {
  SHA256_CTX context;
  SHA256_Init(&context);
  std::vector<uint8_t> block(256 << 10);
  for (off_t at = 0;;) {
    const ssize_t n = pread(fd, block.data(), block.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {};
    if (n == 0) break;
    SHA256_Update(&context, block.data(), static_cast<size_t>(n));
    at += n;
  }
  char text[SHA256_DIGEST_STRING_LENGTH];
  SHA256_End(&context, text);
  return text;
}

}  // namespace

std::string sha256_of(const OpenFile& file) {
  std::string text = digest_of(file.fd());
  if (text.empty()) fail(Exit::kIo, "a plugin cannot be read: {}", std::strerror(errno));
  return text;
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  std::string text = fd < 0 ? std::string() : digest_of(fd);
  const int reason = errno;
  if (fd >= 0) close(fd);
  if (text.empty()) fail(Exit::kInputMissing, "{}: cannot be read: {}", path.string(), std::strerror(reason));
  return text;
}

}  // namespace lf
