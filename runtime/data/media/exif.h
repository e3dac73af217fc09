// The orientation that a picture's metadata asks for.
#pragma once

#include <cstdint>
#include <span>

namespace lf {

// TIFF tag 0x0112: 1 to 8, how rows and columns are to be turned before the picture is shown (EXIF 2.32, 4.6.4.A).
// `tiff` starts with the byte order mark. 0 where the tag is absent, out of range, or the block is broken.
int exif_orientation(std::span<const uint8_t> tiff);

// tiff:Orientation of an XMP packet, or 0.
int xmp_orientation(std::span<const uint8_t> packet);

// Orientations 5 to 8 exchange width and height.
inline bool swaps_sides(int orientation) { return orientation >= 5; }

// rgb: u8 [height, width, 3] as stored -> the picture turned upright. Out of place, since sides may swap.
void turn_upright(const uint8_t* rgb, int width, int height, int orientation, uint8_t* out);

}  // namespace lf
