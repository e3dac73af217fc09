#include "launch/worker_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace lf {

std::filesystem::path log_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank{}.log", rank);
}

std::filesystem::path stderr_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank{}.stderr", rank);
}

void redirect_output(const std::filesystem::path& folder, int rank) {
  const auto file = stderr_file(folder, rank);
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
    fail(Exit::kCannotCreate, "{}: cannot be written: {}", file.string(), std::strerror(errno));
  close(fd);
}

uintmax_t size_or_zero(const std::filesystem::path& file) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  return error ? 0 : size;
}

std::vector<std::string> last_lines(const std::filesystem::path& file, uintmax_t from, size_t lines) {
  constexpr uintmax_t kMost = 64 << 10;
  const uintmax_t size = size_or_zero(file);
  if (size <= from) return {};
  const uintmax_t start = std::max(from, size > kMost ? size - kMost : 0);
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(start));
  std::vector<std::string> found;
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  if (found.size() > lines) found.erase(found.begin(), found.end() - static_cast<ptrdiff_t>(lines));
  return found;
}

}  // namespace lf
