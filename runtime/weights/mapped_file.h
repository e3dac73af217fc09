// A file mapped for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lf {

// Read-only, from construction to destruction; any thread may read. Throws FileError, or lf::Error(kBadData) for what
// is no regular file. The file must not be cut short while it is mapped.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace lf
