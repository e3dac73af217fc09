#include "core/whole_file.h"

#include <cerrno>
#include <cstdio>
#include <new>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace lf {
namespace {

std::error_code latest_error() { return {errno, std::system_category()}; }

}  // namespace

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::error_code replace_file(const std::filesystem::path& path, std::string_view content) noexcept try {
  const std::string part = path.string() + ".part";
  const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return latest_error();
  std::error_code error;
  if (!write_all(descriptor, content)) error = latest_error();
  if (::close(descriptor) != 0 && !error) error = latest_error();  // as disks of other machines tell late
  if (!error && std::rename(part.c_str(), path.c_str()) != 0) error = latest_error();
  if (error) ::unlink(part.c_str());
  return error;
} catch (const std::bad_alloc&) {
  return std::make_error_code(std::errc::not_enough_memory);
}

}  // namespace lf
