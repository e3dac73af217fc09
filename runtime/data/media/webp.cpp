#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "data/media/image.h"

namespace lf {
namespace {

constexpr int kMaxChunks = 10'000;
constexpr uint32_t kMaxMetadataBytes = 64 * 1024 - 16;
// Flags of the VP8X chunk, WebP container specification.
constexpr uint8_t kHasXmp = 0x04, kHasExif = 0x08;

constexpr uint32_t tag(const char (&name)[5]) {
  return static_cast<uint32_t>(name[3]) << 24 | name[2] << 16 | name[1] << 8 | name[0];
}

int find_orientation(const MediaFile& file, HeaderReader& reader) {
  int exif = 0, xmp = 0;
  uint64_t at = 12;
  for (int i = 0; i < kMaxChunks && at + 8 <= file.size(); ++i) {
    const uint32_t type = reader.u32_little(at), length = reader.u32_little(at + 4);
    if (type == tag("EXIF") && length <= kMaxMetadataBytes) {
      auto block = reader.bytes(at + 8, length);
      if (block.size() > 6 && std::equal(block.begin(), block.begin() + 4, "Exif")) block = block.subspan(6);
      exif = exif_orientation(block);
    }
    if (type == tag("XMP ") && length <= kMaxMetadataBytes) xmp = xmp_orientation(reader.bytes(at + 8, length));
    at += 8 + uint64_t{length} + (length & 1);
  }
  return exif != 0 ? exif : xmp != 0 ? xmp : 1;
}

}  // namespace

ImageHeader read_webp_header(const MediaFile& file) {
  HeaderReader reader(file);
  ImageHeader header{.format = ImageFormat::kWebp};
  const uint32_t type = reader.u32_little(12);
  const auto data = [&](size_t count) { return reader.bytes(20, count); };
  if (type == tag("VP8X")) {
    const auto d = data(10);
    const uint8_t flags = d[0];
    header.stored_width = 1 + (d[4] | d[5] << 8 | d[6] << 16);
    header.stored_height = 1 + (d[7] | d[8] << 8 | d[9] << 16);
    if ((flags & (kHasExif | kHasXmp)) != 0) header.orientation = find_orientation(file, reader);
  } else if (type == tag("VP8L")) {
    const auto d = data(5);
    header.stored_width = 1 + (d[1] | (d[2] & 0x3F) << 8);
    header.stored_height = 1 + (d[2] >> 6 | d[3] << 2 | (d[4] & 0x0F) << 10);
  } else if (type == tag("VP8 ")) {
    const auto d = data(10);
    header.stored_width = (d[6] | d[7] << 8) & 0x3FFF;
    header.stored_height = (d[8] | d[9] << 8) & 0x3FFF;
  } else {
    file.fail("a WebP file without a picture");
  }
  if (header.stored_width == 0 || header.stored_height == 0) file.fail("a WebP picture of zero width or height");
  return header;
}

Pixels decode_webp(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header) {
  const WebPData data{bytes.data(), bytes.size()};
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer) file.fail("the WebP file is broken or ends early");
  const int width = header.stored_width, height = header.stored_height;
  WebPIterator frame{};
  const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> release(&frame, WebPDemuxReleaseIterator);
  if (static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH)) != width ||
      static_cast<int>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT)) != height ||
      WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0 || frame.complete == 0)
    file.fail("the WebP file is broken or ends early");

  Pixels rgb(header.pixels());
  const bool whole = frame.width == width && frame.height == height;
  if (whole && frame.has_alpha == 0) {
    if (WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, rgb.bytes.get(), header.pixels() * 3, width * 3) ==
        nullptr)
      file.fail("cannot decode the WebP picture");
    return rgb;
  }
  const int64_t frame_pixels = int64_t{frame.width} * frame.height;
  Pixels rgba(frame_pixels, 4);
  if (WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, rgba.bytes.get(), frame_pixels * 4,
                         frame.width * 4) == nullptr)
    file.fail("cannot decode the WebP picture");
  if (whole) {
    compose_over_white(rgba.bytes.get(), frame_pixels, rgb.bytes.get());
    return rgb;
  }
  // An animation's first frame may cover a part of the canvas.
  std::fill_n(rgb.bytes.get(), header.pixels() * 3, uint8_t{255});
  for (int y = 0; y < frame.height; ++y)
    compose_over_white(rgba.bytes.get() + int64_t{y} * frame.width * 4, frame.width,
                       rgb.bytes.get() + 3 * (int64_t{frame.y_offset + y} * width + frame.x_offset));
  return rgb;
}

}  // namespace lf
