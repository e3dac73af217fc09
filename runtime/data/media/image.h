// JPEG, PNG and WebP files: what their headers say, and their pixels.
//
// All failures are sdk::Failure(LF_E_DATA) whose message starts with the file's path. The format is taken from the
// first bytes, never from the name. Pixels equal Pillow's (ImageOps.exif_transpose, then transparency composed over
// white) bit for bit, but for: 16-bit grey, which keeps its high byte where Pillow clips; the orientation of a PNG in
// XMP, which is not read.
#pragma once

#include <cstdint>
#include <span>

#include "data/media/exif.h"
#include "data/media/file_bytes.h"
#include "data/media/pixels.h"

namespace lf {

enum class ImageFormat { kJpeg, kPng, kWebp };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int32_t stored_width = 0, stored_height = 0;
  int orientation = 1;  // 1 to 8, as EXIF has it
  int components = 3;   // of a JPEG: 1, 3 or 4

  int32_t width() const { return swaps_sides(orientation) ? stored_height : stored_width; }
  int32_t height() const { return swaps_sides(orientation) ? stored_width : stored_height; }
  int64_t pixels() const { return int64_t{stored_width} * stored_height; }
};

// Reads a few KB. Refuses more than max_pixels, and a file too short for what it declares.
ImageHeader read_image_header(const MediaFile& file, int64_t max_pixels);

// u8 [height(), width(), 3].
Pixels decode_image(const MediaFile& file, const ImageHeader& header);

// Of one format each. `bytes` is the whole file; the result is as stored, before orientation.
ImageHeader read_jpeg_header(const MediaFile& file);
ImageHeader read_png_header(const MediaFile& file);
ImageHeader read_webp_header(const MediaFile& file);
Pixels decode_jpeg(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header);
Pixels decode_png(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header);
Pixels decode_webp(const MediaFile& file, std::span<const uint8_t> bytes, const ImageHeader& header);

// rgba [count, 4] -> rgb [count, 3] over white, rounded as Pillow's Image.alpha_composite does. `rgb` may be `rgba`.
void compose_over_white(const uint8_t* rgba, int64_t count, uint8_t* rgb);

}  // namespace lf
