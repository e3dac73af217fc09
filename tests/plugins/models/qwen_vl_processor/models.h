// Models of each generation, small, with Qwen2's real token ids, and a tokenizer of nothing but bytes and their marks.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "qwen_vl/config.h"

namespace lf::test {

inline qwen_vl::QwenVlConfig small_model(qwen_vl::Family family) {
  qwen_vl::QwenVlConfig config;
  config.family = family;
  config.image_token_id = 151655;
  config.video_token_id = 151656;
  config.vision_start_token_id = 151652;
  config.vision_end_token_id = 151653;
  config.text.vocab_size = 152064;
  config.text.mrope_section = {16, 24, 24};  // three position axes
  config.vision.patch_size = qwen_vl::is_qwen3(family) ? 16 : 14;
  config.vision.tokens_per_second = 2;
  return config;
}

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lf_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  void write(const char* name, const nlohmann::json& content) const { std::ofstream(path_ / name) << content.dump(); }
  void write_text(const char* name, const std::string& content) const { std::ofstream(path_ / name) << content; }

 private:
  std::filesystem::path path_;
};

inline std::string letter_of(int byte) {
  int letter = byte;
  if (byte <= 32) letter = 256 + byte;
  if (byte >= 127 && byte <= 160) letter = 256 + 33 + byte - 127;
  if (byte == 173) letter = 256 + 33 + 34;
  if (letter < 0x80) return std::string(1, static_cast<char>(letter));
  return {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
}

// Every byte is a token of its own number; marks have the numbers of Qwen2.
inline nlohmann::json byte_tokenizer() {
  nlohmann::json vocab, added;
  for (int byte = 0; byte < 256; ++byte) vocab[letter_of(byte)] = byte;
  int id = 151643;
  for (const char* mark : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
                           "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
                           "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"})
    added.push_back({{"id", id++}, {"content", mark}, {"special", true}, {"normalized", false}});
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"added_tokens", added},
          {"pre_tokenizer", byte_level},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
}

}  // namespace lf::test
