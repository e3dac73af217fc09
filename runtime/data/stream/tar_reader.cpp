#include "data/stream/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "data/path_text.h"

namespace lf {
namespace {

constexpr uint64_t kMaxExtension = 1 << 20;  // of a pax header or a long name
constexpr uint64_t kMaxSize = uint64_t{1} << 62;

// Fields of the header block: offset and length.
struct Field {
  size_t at, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

std::string_view text_of(const std::array<char, 512>& block, Field field) {
  const char* begin = block.data() + field.at;
  return {begin, strnlen(begin, field.length)};
}

// Octal digits between blanks, or with the highest bit set a binary number.
std::optional<uint64_t> number_of(const std::array<char, 512>& block, Field field) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(block.data() + field.at);
  uint64_t value = 0;
  if ((bytes[0] & 0x80) != 0) {
    for (size_t i = 0; i < field.length; ++i) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | (i == 0 ? bytes[0] & 0x7F : bytes[i]);
    }
    return value;
  }
  std::string_view text = text_of(block, field);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || value >> 60 != 0) return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(digit - '0');
  }
  return value;
}

}  // namespace

std::optional<TarMember> TarReader::next() {
  next_name_.reset();
  next_size_.reset();
  for (;;) {
    if (!bytes_.skip(data_ + padding_)) broken("the archive ends early");
    data_ = padding_ = 0;
    Block block;
    if (!read_block(block) || std::ranges::all_of(block, [](char c) { return c == 0; })) return std::nullopt;
    const char type = block[kType];
    const uint64_t size = check_header(block);
    switch (type) {
      case 'x':
        take_pax(read_extension(size, "pax header"));
        continue;
      case 'L':
        next_name_ = read_extension(size, "long name");
        next_name_->resize(strnlen(next_name_->c_str(), next_name_->size()));
        continue;
      case 'g':
      case 'K':
        read_extension(size, "extended header");
        continue;
      case 'S':
        broken("a sparse file; expected an archive made without --sparse");
      default:
        break;
    }
    const bool regular = type == '0' || type == '\0' || type == '7';
    const bool without_data = type >= '1' && type <= '6';
    TarMember member{.name = std::string(text_of(block, kName)),
                     .size = next_size_.value_or(size),
                     .header = bytes_.offset() - block.size()};
    // Old GNU archives have other things where ustar has the prefix.
    if (std::memcmp(block.data() + kMagic.at, "ustar\0", kMagic.length) == 0)
      if (const std::string_view prefix = text_of(block, kPrefix); !prefix.empty())
        member.name = fmt::format("{}/{}", prefix, member.name);
    if (next_name_) member.name = *next_name_;
    data_ = without_data ? 0 : member.size;
    padding_ = (512 - data_ % 512) % 512;
    next_name_.reset();
    next_size_.reset();
    if (regular && !member.name.ends_with('/')) return member;
  }
}

std::string TarReader::read() {
  std::string out = take(data_);
  data_ = 0;
  return out;
}

bool TarReader::read_block(Block& block) {
  const size_t got = bytes_.read(block);
  if (got != 0 && got != block.size()) broken("the archive ends early");
  return got != 0;
}

uint64_t TarReader::check_header(const Block& block) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool in_checksum = i >= kChecksum.at && i < kChecksum.at + kChecksum.length;
    sum += in_checksum ? uint64_t{' '} : static_cast<uint8_t>(block[i]);
  }
  const auto checksum = number_of(block, kChecksum);
  if (!checksum || *checksum != sum) broken("no header of a tar archive");
  const auto size = number_of(block, kSize);
  if (!size || *size > kMaxSize) broken("a size that makes no sense");
  return *size;
}

std::string TarReader::read_extension(uint64_t size, const char* what) {
  if (size > kMaxExtension) broken(fmt::format("a {} of {} bytes; expected at most {}", what, size, kMaxExtension));
  data_ = size;
  padding_ = (512 - size % 512) % 512;
  return read();
}

// "LENGTH KEY=VALUE\n", LENGTH of the whole record.
void TarReader::take_pax(const std::string& records) {
  std::string_view rest = records;
  while (!rest.empty()) {
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 || rest[digits] != ' ' ||
        rest[length - 1] != '\n')
      broken("a broken pax header");
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == record.npos) broken("a broken pax header");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") next_name_ = std::string(value);
    if (key.starts_with("GNU.sparse.")) broken("a sparse file; expected an archive made without --sparse");
    if (key != "size") continue;
    uint64_t size = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || size > kMaxSize)
      broken("a size that makes no sense");
    next_size_ = size;
  }
}

// In pieces: a size that lies must not allocate what never comes.
std::string TarReader::take(uint64_t size) {
  constexpr uint64_t kPiece = 1 << 20;
  std::string out;
  while (out.size() < size) {
    const size_t before = out.size();
    out.resize(before + std::min(kPiece, size - before));
    if (bytes_.read(std::span(out).subspan(before)) != out.size() - before) broken("the archive ends early");
  }
  return out;
}

void TarReader::broken(const std::string& what) const {
  fail(Exit::kBadData, "{}: at byte {}: {}; check data.path", readable(bytes_.path().string()), bytes_.offset(), what);
}

}  // namespace lf
