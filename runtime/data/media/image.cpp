#include "data/media/image.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lf {
namespace {

constexpr uint64_t kMaxImageBytes = 256 << 20;

// Other kinds that data sets hold by mistake. Bytes are never shown: the file may be one that nobody was meant to read.
std::string_view other_kind(std::string_view start) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"GIF8", "a GIF"},
      {"BM", "a BMP"},
      {std::string_view("II*\0", 4), "a TIFF"},
      {std::string_view("MM\0*", 4), "a TIFF"},
      {"%PDF", "a PDF"},
      {"<", "HTML, SVG or other XML"},
      {"version http", "a pointer of Git LFS: fetch the files with git lfs pull"}};
  for (const auto& [signature, kind] : kKinds)
    if (start.starts_with(signature)) return kind;
  if (start.size() >= 8 && start.substr(4).starts_with("ftyp")) return "HEIC, AVIF or a video";
  return "of another kind";
}

ImageHeader read_by_signature(const MediaFile& file) {
  std::array<uint8_t, 12> start{};
  const size_t got = file.read(0, start);
  const auto begins = [&](size_t at, const char* bytes, size_t count) {
    return got >= at + count && std::memcmp(start.data() + at, bytes, count) == 0;
  };
  if (begins(0, "\xFF\xD8\xFF", 3)) return read_jpeg_header(file);
  if (begins(0, "\x89PNG\r\n\x1A\n", 8)) return read_png_header(file);
  if (begins(0, "RIFF", 4) && begins(8, "WEBP", 4)) return read_webp_header(file);
  const std::string_view text(reinterpret_cast<const char*>(start.data()), got);
  file.fail(fmt::format("not a JPEG, PNG or WebP picture: by its first bytes it is {}", other_kind(text)));
}

}  // namespace

ImageHeader read_image_header(const MediaFile& file, int64_t max_pixels) {
  const ImageHeader header = read_by_signature(file);
  if (header.pixels() > max_pixels)
    file.fail(fmt::format("{} x {} pixels; expected at most {} (data.max_decoded_pixels)", header.stored_width,
                          header.stored_height, max_pixels));
  return header;
}

Pixels decode_image(const MediaFile& file, const ImageHeader& header) {
  const std::vector<uint8_t> bytes = file.read_all(kMaxImageBytes);
  Pixels stored;
  switch (header.format) {
    case ImageFormat::kJpeg:
      stored = decode_jpeg(file, bytes, header);
      break;
    case ImageFormat::kPng:
      stored = decode_png(file, bytes, header);
      break;
    case ImageFormat::kWebp:
      stored = decode_webp(file, bytes, header);
      break;
  }
  if (header.orientation == 1) return stored;
  Pixels upright(header.pixels());
  turn_upright(stored.bytes.get(), header.stored_width, header.stored_height, header.orientation, upright.bytes.get());
  return upright;
}

void compose_over_white(const uint8_t* rgba, int64_t count, uint8_t* rgb) {
  // Pillow's fixed point with 7 further bits, for a backdrop that is opaque: both weights then sum to 255 << 7.
  const auto divide = [](uint32_t a) { return ((a >> 8) + a) >> 8; };
  for (int64_t i = 0; i < count; ++i, rgba += 4, rgb += 3) {
    const uint32_t alpha = rgba[3] << 7, rest = (255 << 7) - alpha;
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(divide(rgba[c] * alpha + 255 * rest + (0x80 << 7)) >> 7);
  }
}

}  // namespace lf
