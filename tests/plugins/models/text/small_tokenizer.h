// The parts of a tokenizer.json with nothing but the 256 bytes and a few merges, to be changed by a test.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lf::test {

// The printable letter that stands for a byte, as UTF-8; written anew here, to be independent of the code under test.
inline std::string letter_of(int byte) {
  int letter = byte;
  if (byte <= 32) letter = 256 + byte;
  if (byte >= 127 && byte <= 160) letter = 256 + 33 + byte - 127;
  if (byte == 173) letter = 256 + 33 + 34;
  if (letter < 0x80) return std::string(1, static_cast<char>(letter));
  return {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
}

inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[letter_of(byte)] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

}  // namespace lf::test
