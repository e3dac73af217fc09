#include "data/media/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lf {
namespace {

constexpr uint16_t kOrientationTag = 0x0112, kShort = 3;

struct Tiff {
  std::span<const uint8_t> bytes;
  bool big;

  bool has(uint64_t at, uint64_t count) const { return at + count <= bytes.size(); }
  uint32_t u16(uint64_t at) const { return big ? bytes[at] << 8 | bytes[at + 1] : bytes[at + 1] << 8 | bytes[at]; }
  uint32_t u32(uint64_t at) const { return big ? u16(at) << 16 | u16(at + 2) : u16(at + 2) << 16 | u16(at); }
};

}  // namespace

int exif_orientation(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8 || bytes[0] != bytes[1] || (bytes[0] != 'M' && bytes[0] != 'I')) return 0;
  const Tiff tiff{bytes, bytes[0] == 'M'};
  if (tiff.u16(2) != 42) return 0;
  const uint64_t directory = tiff.u32(4);
  if (!tiff.has(directory, 2)) return 0;
  const uint64_t entries = tiff.u16(directory);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (!tiff.has(entry, 12)) return 0;
    if (tiff.u16(entry) != kOrientationTag) continue;
    if (tiff.u16(entry + 2) != kShort || tiff.u32(entry + 4) < 1) return 0;
    const uint32_t value = tiff.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

int xmp_orientation(std::span<const uint8_t> packet) {
  const std::string_view text(reinterpret_cast<const char*>(packet.data()), packet.size());
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    rest.remove_prefix(rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : rest.size());
    if (!rest.empty() && rest[0] >= '1' && rest[0] <= '8') return rest[0] - '0';
  }
  return 0;
}

void turn_upright(const uint8_t* rgb, int width, int height, int orientation, uint8_t* out) {
  const std::ptrdiff_t w = width, h = height;
  // Where the picture's first pixel lies in the stored one, and the steps to the next column and row, in pixels.
  std::ptrdiff_t first = 0, column = 1, row = w;
  switch (orientation) {
    case 2:
      first = w - 1, column = -1, row = w;
      break;
    case 3:
      first = h * w - 1, column = -1, row = -w;
      break;
    case 4:
      first = (h - 1) * w, column = 1, row = -w;
      break;
    case 5:
      first = 0, column = w, row = 1;
      break;
    case 6:
      first = (h - 1) * w, column = -w, row = 1;
      break;
    case 7:
      first = h * w - 1, column = -w, row = -1;
      break;
    case 8:
      first = w - 1, column = w, row = -1;
      break;
    default:
      break;
  }
  const std::ptrdiff_t out_width = swaps_sides(orientation) ? h : w, out_height = swaps_sides(orientation) ? w : h;
  for (std::ptrdiff_t y = 0; y < out_height; ++y)
    for (std::ptrdiff_t x = 0; x < out_width; ++x, out += 3)
      std::copy_n(rgb + 3 * (first + y * row + x * column), 3, out);
}

}  // namespace lf
