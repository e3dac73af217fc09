#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <png.h>

#include "data/media/image.h"

namespace lf {
namespace {

constexpr int kMaxChunks = 10'000;
constexpr uint32_t kMaxExifBytes = 64 * 1024 - 16;
// No deflate stream expands further (RFC 1951: 258 bytes of a match in two bits).
constexpr int64_t kMaxExpansion = 1032;

constexpr uint32_t tag(const char (&name)[5]) {
  return static_cast<uint32_t>(name[0]) << 24 | name[1] << 16 | name[2] << 8 | name[3];
}

uint32_t big_endian(const uint8_t* b) { return static_cast<uint32_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3]; }

int channels_of(uint8_t colour_type) {
  switch (colour_type) {
    case 0:
    case 3:
      return 1;
    case 2:
      return 3;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 0;
  }
}

// The chunk may stand before the pixels or behind them; where there are several, Pillow takes the last. Heads are read
// one by one and all else is jumped over, so that a large picture is not read for its size.
int find_orientation(const MediaFile& file) {
  int orientation = 1;
  uint64_t at = 33;  // after IHDR
  for (int i = 0; i < kMaxChunks; ++i) {
    std::array<uint8_t, 8> head{};
    if (file.read(at, head) < head.size()) break;
    const uint32_t length = big_endian(head.data()), type = big_endian(head.data() + 4);
    if (type == tag("IEND")) break;
    if (type == tag("eXIf") && length <= kMaxExifBytes) {
      HeaderReader reader(file);
      orientation = std::max(1, exif_orientation(reader.bytes(at + 8, length)));
    }
    at += 12 + uint64_t{length};
  }
  return orientation;
}

// libpng leaves by longjmp, so nothing with a destructor lives between.
struct Session {
  const uint8_t* next;
  size_t left;
  char message[128];
  png_structp png;
  png_infop info;
};

void note(png_structp png, png_const_charp text) {
  Session& session = *static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session.message, sizeof session.message, "%s", text);
  png_longjmp(png, 1);
}

void supply(png_structp png, png_bytep out, size_t count) {
  Session& session = *static_cast<Session*>(png_get_io_ptr(png));
  if (count > session.left) png_error(png, "the file ends early");
  std::memcpy(out, session.next, count);
  session.next += count;
  session.left -= count;
}

// Opens the picture up to its pixels; *channels becomes 3 or 4. False with session.message on a failure.
bool begin(Session& session, int* channels) {
  session.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, note, [](png_structp, png_const_charp) {});
  if (session.png == nullptr || (session.info = png_create_info_struct(session.png)) == nullptr) {
    std::snprintf(session.message, sizeof session.message, "out of memory");
    return false;
  }
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  png_set_read_fn(session.png, &session, supply);
  png_read_info(session.png, session.info);
  png_set_strip_16(session.png);
  png_set_expand(session.png);  // palettes, fewer than 8 bits, transparent colours
  png_set_gray_to_rgb(session.png);
  png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  *channels = png_get_channels(session.png, session.info);
  return true;
}

bool read_rows(Session& session, png_bytepp rows) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  png_read_image(session.png, rows);
  return true;
}

}  // namespace

ImageHeader read_png_header(const MediaFile& file) {
  HeaderReader reader(file);
  std::array<uint8_t, 25> head{};
  std::ranges::copy(reader.bytes(8, head.size()), head.begin());
  if (reader.u32_big(8) != 13 || reader.u32_big(12) != tag("IHDR"))
    file.fail("a PNG that does not start with its header");
  const uint32_t width = reader.u32_big(16), height = reader.u32_big(20);
  const int bits = head[16] * channels_of(head[17]);
  if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX || bits == 0 || bits > 64)
    file.fail("a PNG whose header makes no sense");
  ImageHeader header{.format = ImageFormat::kPng,
                     .stored_width = static_cast<int32_t>(width),
                     .stored_height = static_cast<int32_t>(height)};
  const double raw_bytes = static_cast<double>(height) * ((static_cast<double>(width) * bits + 7) / 8 + 1);
  if (raw_bytes / kMaxExpansion > static_cast<double>(file.size()))
    file.fail(fmt::format("{} bytes are too few for {} x {} pixels", file.size(), width, height));
  header.orientation = find_orientation(file);
  return header;
}

Pixels decode_png(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header) {
  struct Closed : Session {
    ~Closed() { png_destroy_read_struct(&png, &info, nullptr); }
  } session{};
  session.next = bytes.data();
  session.left = bytes.size();
  int channels = 0;
  if (!begin(session, &channels)) file.fail(fmt::format("cannot decode the PNG: {}", session.message));
  if (png_get_image_width(session.png, session.info) != static_cast<uint32_t>(header.stored_width) ||
      png_get_image_height(session.png, session.info) != static_cast<uint32_t>(header.stored_height) ||
      (channels != 3 && channels != 4))
    file.fail("cannot decode the PNG: two headers that differ");

  Pixels pixels(header.pixels(), channels);
  std::vector<png_bytep> rows(header.stored_height);
  for (int32_t y = 0; y < header.stored_height; ++y)
    rows[y] = pixels.bytes.get() + int64_t{y} * header.stored_width * channels;
  if (!read_rows(session, rows.data())) file.fail(fmt::format("cannot decode the PNG: {}", session.message));
  if (channels == 3) return pixels;
  Pixels rgb(header.pixels());
  compose_over_white(pixels.bytes.get(), header.pixels(), rgb.bytes.get());
  return rgb;
}

}  // namespace lf
