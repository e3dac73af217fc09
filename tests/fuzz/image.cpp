// Pictures: a header that is accepted is within the limit, and what is decoded has its size.
#include "data/media/image.h"

#include "fuzz/target.h"
#include "lf/plugin_sdk/guard.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMaxPixels = 1 << 18;
  try {
    const lf::MediaFile file("picture", std::make_shared<const std::string>(lf::fuzz::text_of(data, size)));
    const lf::ImageHeader header = lf::read_image_header(file, kMaxPixels);
    if (header.pixels() <= 0 || header.pixels() > kMaxPixels || header.orientation < 1 || header.orientation > 8)
      __builtin_trap();
    const lf::Pixels pixels = lf::decode_image(file, header);
    volatile uint8_t last = pixels.bytes[static_cast<size_t>(header.pixels() * 3 - 1)];
    static_cast<void>(last);
  } catch (const lf::sdk::Failure& failure) {
    if (failure.code() != LF_E_DATA) __builtin_trap();
    lf::fuzz::check_message(failure.what());
  }
  return 0;
}
