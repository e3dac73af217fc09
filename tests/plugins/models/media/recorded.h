// tests/fixtures/processor: what the reference processors gave, and the pictures they were given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <nlohmann/json.hpp>

namespace lf::test {

inline std::filesystem::path processor_fixture(const char* name) {
  return std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/processor" / name;
}
inline nlohmann::json recorded_processor() {
  return nlohmann::json::parse(std::ifstream(processor_fixture("processor.json")));
}
inline std::vector<uint8_t> recorded_levels() {
  std::ifstream in(processor_fixture("levels.bin"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The formula of record_processor.py: u8 [height, width, 3].
inline std::vector<uint8_t> picture(int64_t width, int64_t height, int64_t seed, bool gray = false) {
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t channel = 0; channel < 3; ++channel) {
        const int64_t c = gray ? 0 : channel;
        uint32_t noise = static_cast<uint32_t>(x) * 2654435761u + static_cast<uint32_t>(y) * 2246822519u +
                         static_cast<uint32_t>(c) * 3266489917u + static_cast<uint32_t>(seed) * 668265263u;
        noise ^= noise >> 15;
        noise *= 2246822519u;
        noise ^= noise >> 13;
        const int64_t slope = x * 255 / std::max<int64_t>(width - 1, 1) + y * 3 + c * 40;
        const int64_t stripes = ((x / 5 + y / 7 + c) % 2) * 200;
        out.push_back(static_cast<uint8_t>((x + y) % 3 == 0 ? noise % 256 : y % 2 == 0 ? slope % 256 : stripes));
      }
  return out;
}

}  // namespace lf::test
