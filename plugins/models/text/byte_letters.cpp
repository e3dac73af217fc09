#include "text/byte_letters.h"

#include <array>
#include <cstdint>

namespace lf::text {
namespace {

constexpr int kLetters = 256 + 68;  // 188 bytes stand for themselves; the other 68 are U+0100 to U+0143

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<int16_t, kLetters> make_byte_of_letter() {
  std::array<int16_t, kLetters> byte_of{};
  for (int16_t& byte : byte_of) byte = -1;
  int spare = 256;
  for (int byte = 0; byte < 256; ++byte)
    byte_of[static_cast<size_t>(stands_for_itself(byte) ? byte : spare++)] = static_cast<int16_t>(byte);
  return byte_of;
}

constexpr std::array<int16_t, kLetters> kByteOfLetter = make_byte_of_letter();

}  // namespace

bool append_bytes_of_letters(std::string_view letters, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + letters.size());  // a letter is one byte or two
  char* end = bytes.data() + before;
  const auto refuse = [&] {
    bytes.resize(before);
    return false;
  };
  for (size_t i = 0; i < letters.size(); ++i) {
    uint32_t letter = static_cast<uint8_t>(letters[i]);
    if (letter >= 0x80) {  // the alphabet needs at most two bytes of UTF-8
      if (letter >= 0xE0 || i + 1 >= letters.size()) return refuse();
      letter = (letter & 0x1F) << 6 | (static_cast<uint8_t>(letters[++i]) & 0x3F);
    }
    if (letter >= kLetters || kByteOfLetter[letter] < 0) return refuse();
    *end++ = static_cast<char>(kByteOfLetter[letter]);
  }
  bytes.resize(static_cast<size_t>(end - bytes.data()));
  return true;
}

}  // namespace lf::text
