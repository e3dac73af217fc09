#include "qwen_vl/processor/chat.h"

#include <algorithm>

#include <fmt/format.h>

#include "family/token_writer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

using family::check_token;
using family::check_vocabulary;
using family::needed_token;

constexpr std::string_view kFamily = "Qwen-VL";
constexpr std::string_view kDefaultSystem = "You are a helpful assistant.";

}  // namespace

class Chat::Writer : public family::TokenWriter {
 public:
  Writer(const Chat& chat, Sequence& out) : TokenWriter(chat.tokenizer_, chat.marks_, out), chat_(chat), out_(out) {}

  // A picture or a video with its markers.
  void vision(VisionInput input) {
    const QwenVlConfig& config = chat_.config_;
    const bool stamped = input.video && chat_.style_ == ChatStyle::kQwen3;
    const int64_t merge = config.vision.spatial_merge_size;
    const int64_t tokens_per_group = input.height / merge * (input.width / merge);
    const int64_t pad = input.video ? config.video_token_id : config.image_token_id;
    Rows block;
    if (stamped) {
      block.begin = begin_of(input.stamps.front());
    } else {
      flush();
      block.begin = out_.rows();
    }
    for (int64_t group = 0; group < (stamped ? input.groups : 1); ++group) {
      if (stamped) text(input.stamps[static_cast<size_t>(group)], false);
      token(config.vision_start_token_id, false);
      tokens(pad, stamped ? tokens_per_group : input.groups * tokens_per_group);
      token(config.vision_end_token_id, false);
    }
    block.end = out_.rows();
    out_.blocks.push_back(block);
    out_.vision.push_back(std::move(input));
  }

 private:
  const Chat& chat_;
  Sequence& out_;
};

Chat::Chat(const text::Tokenizer& tokenizer, const QwenVlConfig& config, ChatStyle style)
    : tokenizer_(tokenizer),
      config_(config),
      style_(style),
      im_start_(needed_token(tokenizer, "<|im_start|>", kFamily)),
      im_end_(needed_token(tokenizer, "<|im_end|>", kFamily)) {
  check_token(tokenizer, "<|image_pad|>", kFamily, config.image_token_id);
  check_token(tokenizer, "<|video_pad|>", kFamily, config.video_token_id);
  check_token(tokenizer, "<|vision_start|>", kFamily, config.vision_start_token_id);
  check_token(tokenizer, "<|vision_end|>", kFamily, config.vision_end_token_id);
  check_vocabulary(tokenizer, config.text.vocab_size);
  for (const std::string_view kind : {"object_ref", "box", "quad"})
    for (const std::string_view side : {"start", "end"})
      if (const auto id = tokenizer.added_token(fmt::format("<|{}_{}|>", kind, side))) marks_.push_back(*id);
}

Sequence Chat::encode(const std::vector<Message>& messages, std::vector<VisionInput> vision) const {
  Sequence out;
  Writer writer(*this, out);
  size_t next = 0;
  if (style_ == ChatStyle::kQwen2 && !messages.empty() && messages.front().role != "system") {
    writer.token(im_start_, false);
    writer.text(fmt::format("system\n{}", kDefaultSystem), false);
    writer.token(im_end_, false);
    writer.text("\n", false);
  }
  for (const Message& message : messages) {
    const bool response = style_ == ChatStyle::kQwen3 && message.role == "tool";
    writer.token(im_start_, false);
    writer.text(response ? "user\n<tool_response>\n" : message.role + "\n", false);
    for (const Item& item : message.content) {
      if (const auto* words = std::get_if<TextItem>(&item)) {
        writer.text(words->text, message.train);
        continue;
      }
      if (style_ == ChatStyle::kQwen3 && message.role != "user" && message.role != "tool")
        throw sdk::Failure(
            LF_E_DATA,
            fmt::format("a picture in a message of role {}: Qwen3-VL has them in user and tool messages only",
                        message.role));
      writer.vision(std::move(vision.at(next++)));
    }
    if (response) writer.text("\n</tool_response>", false);
    writer.token(im_end_, message.train);
    writer.text("\n", false);
  }
  writer.flush();
  return out;
}

TemplateKind judge_template(std::string_view chat_template) {
  while (!chat_template.empty() && std::isspace(static_cast<unsigned char>(chat_template.back())))
    chat_template.remove_suffix(1);
  while (!chat_template.empty() && std::isspace(static_cast<unsigned char>(chat_template.front())))
    chat_template.remove_prefix(1);
  if (chat_template.empty()) return TemplateKind::kNone;
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const char c : chat_template) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  constexpr uint64_t kPublished[] = {
      0x71242F76359E71E8u,  // Qwen2-VL, Qwen2.5-VL
      0x99AC253185D6F7C1u,  // Qwen3-VL
  };
  return std::find(std::begin(kPublished), std::end(kPublished), hash) != std::end(kPublished) ? TemplateKind::kKnown
                                                                                               : TemplateKind::kUnknown;
}

}  // namespace lf::qwen_vl
