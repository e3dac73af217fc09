// Members of a tar archive, one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "data/stream/byte_stream.h"

namespace lf {

struct TarMember {
  std::string name;     // as stored; nothing is ever written under it
  uint64_t size = 0;    // of its data, in bytes
  uint64_t header = 0;  // at which byte of the archive it begins: its own, where a name stands twice
};

// Regular files of archives in the ustar, pax and GNU formats (POSIX.1-2017, pax, "pax Interchange Format"; GNU tar
// manual, "Basic Tar Format"); folders, links and devices are passed over. Own code since libarchive would bring a
// dozen libraries into every start. Throws lf::Error(kBadData) with file and byte where the archive is broken, ends
// early or holds sparse files.
class TarReader {
 public:
  explicit TarReader(ByteStream& bytes) : bytes_(bytes) {}

  // The next regular file, or nothing at the end. Data of the member before that was not read is passed over.
  std::optional<TarMember> next();
  // The member's data, whole; once.
  std::string read();

 private:
  using Block = std::array<char, 512>;
  bool read_block(Block& block);
  uint64_t check_header(const Block& block) const;
  std::string read_extension(uint64_t size, const char* what);
  void take_pax(const std::string& records);
  std::string take(uint64_t size);
  [[noreturn]] void broken(const std::string& what) const;

  ByteStream& bytes_;
  uint64_t data_ = 0, padding_ = 0;  // of the current member, not read yet
  std::optional<std::string> next_name_;
  std::optional<uint64_t> next_size_;
};

}  // namespace lf
