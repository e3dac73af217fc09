#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <jpeglib.h>

#include "data/media/image.h"

namespace lf {
namespace {

// Markers, ITU-T T.81 table B.1.
constexpr uint8_t kStartOfImage = 0xD8, kEndOfImage = 0xD9, kStartOfScan = 0xDA, kApp1 = 0xE1, kTemporary = 0x01;
constexpr int kMaxSegments = 10'000;
// Real progressive files have about ten; each costs a pass over the picture.
constexpr int kMaxScans = 100;

bool is_restart(uint8_t marker) { return marker >= 0xD0 && marker <= 0xD7; }
bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

void read_frame(const MediaFile& file, HeaderReader& reader, uint64_t segment, uint8_t marker, ImageHeader& header) {
  if (marker > 0xC2 && marker != 0xC9 && marker != 0xCA)
    file.fail("a JPEG of a lossless or hierarchical kind; expected baseline or progressive");
  const auto frame = reader.bytes(segment + 2, 6);
  header.stored_height = frame[1] << 8 | frame[2];
  header.stored_width = frame[3] << 8 | frame[4];
  if (frame[0] != 8) file.fail(fmt::format("a JPEG of {} bits a sample; expected 8", frame[0]));
  if (frame[5] != 1 && frame[5] != 3 && frame[5] != 4)
    file.fail(fmt::format("a JPEG of {} components; expected 1, 3 or 4", frame[5]));
  header.components = frame[5];
  if (header.stored_width == 0 || header.stored_height == 0) file.fail("a JPEG of zero width or height");
}

struct Orientation {
  int exif = 0, xmp = 0;

  void read(std::span<const uint8_t> segment) {
    const std::string_view text(reinterpret_cast<const char*>(segment.data()), segment.size());
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    if (exif == 0 && text.starts_with(kExif)) exif = exif_orientation(segment.subspan(kExif.size()));
    if (xmp == 0 && text.starts_with(kXmp)) xmp = xmp_orientation(segment.subspan(kXmp.size()));
  }
  int value() const { return exif != 0 ? exif : xmp != 0 ? xmp : 1; }
};

// What libjpeg calls back into; it leaves by longjmp, so nothing with a destructor lives between.
struct Session {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX];
  bool ended_early;
};

Session& session_of(j_common_ptr info) { return *static_cast<Session*>(info->client_data); }

[[noreturn]] void leave(j_common_ptr info) {
  Session& session = session_of(info);
  info->err->format_message(info, session.message);
  std::longjmp(session.out, 1);
}

boolean supply_end(j_decompress_ptr info) {
  static const JOCTET kEnd[2] = {0xFF, kEndOfImage};
  session_of(reinterpret_cast<j_common_ptr>(info)).ended_early = true;
  info->src->next_input_byte = kEnd;
  info->src->bytes_in_buffer = 2;
  return TRUE;
}

void limit_scans(j_common_ptr info) {
  Session& session = session_of(info);
  if (session.info.input_scan_number <= kMaxScans) return;
  std::snprintf(session.message, sizeof session.message, "more than %d scans", kMaxScans);
  std::longjmp(session.out, 1);
}

// rows: [height, width, 3], or [height, width, 4] of inverted CMYK. False with session.message on a failure.
bool run_decoder(Session& session, std::span<const uint8_t> bytes, const ImageHeader& header, uint8_t* rows) {
  jpeg_decompress_struct& info = session.info;
  info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = leave;
  session.errors.emit_message = [](j_common_ptr, int) {};  // broken data is painted over, as Pillow does
  info.client_data = &session;
  if (setjmp(session.out) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  info.src->fill_input_buffer = supply_end;
  session.progress.progress_monitor = limit_scans;
  info.progress = &session.progress;
  jpeg_read_header(&info, TRUE);
  if (info.image_width != static_cast<JDIMENSION>(header.stored_width) ||
      info.image_height != static_cast<JDIMENSION>(header.stored_height) || info.num_components != header.components) {
    std::snprintf(session.message, sizeof session.message, "two frame headers that differ");
    std::longjmp(session.out, 1);
  }
  const bool cmyk = header.components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = rows + static_cast<size_t>(info.output_scanline) * header.stored_width * (cmyk ? 4 : 3);
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

// Adobe stores the complement of ink; rounding as in Pillow's cmyk2rgb.
void cmyk_to_rgb(const uint8_t* cmyk, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const int paper = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * paper + 128;
      rgb[c] = static_cast<uint8_t>(std::clamp(paper - (((product >> 8) + product) >> 8), 0, 255));
    }
  }
}

}  // namespace

ImageHeader read_jpeg_header(const MediaFile& file) {
  HeaderReader reader(file);
  ImageHeader header{.format = ImageFormat::kJpeg};
  Orientation orientation;
  bool has_frame = false;
  uint64_t at = 2;
  for (int segments = 0; segments < kMaxSegments; ++segments) {
    while (reader.u8(at) != 0xFF) ++at;  // stray bytes between segments are skipped, as libjpeg does
    while (reader.u8(at) == 0xFF) ++at;
    const uint8_t marker = reader.u8(at++);
    if (marker == 0 || marker == kTemporary || marker == kStartOfImage || is_restart(marker)) continue;
    if (marker == kStartOfScan || marker == kEndOfImage) break;
    const uint16_t length = reader.u16_big(at);
    if (length < 2) file.fail("a JPEG segment of no length");
    if (marker == kApp1) orientation.read(reader.bytes(at + 2, length - 2));
    if (is_frame(marker) && !has_frame) {
      read_frame(file, reader, at, marker, header);
      has_frame = true;
    }
    at += length;
  }
  if (!has_frame) file.fail("a JPEG without a frame header");
  // Every 8 x 8 block costs at least one bit.
  if (header.pixels() / 512 > static_cast<int64_t>(file.size()))
    file.fail(
        fmt::format("{} bytes are too few for {} x {} pixels", file.size(), header.stored_width, header.stored_height));
  header.orientation = orientation.value();
  return header;
}

Pixels decode_jpeg(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header) {
  const int channels = header.components == 4 ? 4 : 3;
  Pixels rows(header.pixels(), channels);
  Session session{};
  if (!run_decoder(session, bytes, header, rows.bytes.get()))
    file.fail(fmt::format("cannot decode the JPEG: {}", session.message));
  if (session.ended_early) file.fail("the JPEG ends early");
  if (channels == 3) return rows;
  Pixels rgb(header.pixels());
  cmyk_to_rgb(rows.bytes.get(), header.pixels(), rgb.bytes.get());
  return rgb;
}

}  // namespace lf
