#include "qwen_vl/processor/chat.h"

#include <algorithm>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

constexpr std::string_view kDefaultSystem = "You are a helpful assistant.";

text::TokenId needed(const text::Tokenizer& tokenizer, std::string_view content) {
  const auto id = tokenizer.added_token(content);
  if (!id)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: expected the token {}, as Qwen-VL's have it; set model.tokenizer to the family's",
                    content));
  return *id;
}

void check_number(const text::Tokenizer& tokenizer, std::string_view content, int64_t model) {
  if (const auto id = needed(tokenizer, content); id != model)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: {} is {}, but the model's config.json says {}; they do not belong together", content,
                    id, model));
}

size_t common_prefix(const std::vector<text::TokenId>& a, const std::vector<text::TokenId>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

// Puts a sequence together: text is held back until a token or a change of supervision comes, so that neighbouring
// texts are encoded as one.
class Chat::Writer {
 public:
  Writer(const Chat& chat, Sequence& out) : chat_(chat), out_(out) {}

  void text(std::string_view words, bool learnt) {
    if (learnt != learnt_) flush();
    learnt_ = learnt;
    pending_ += words;
  }
  void token(int64_t id, bool learnt) {
    flush();
    out_.ids.push_back(id);
    out_.labels.push_back(learnt ? id : kUnsupervised);
  }
  void tokens(int64_t id, int64_t count) {
    flush();
    out_.ids.insert(out_.ids.end(), static_cast<size_t>(count), id);
    out_.labels.insert(out_.labels.end(), static_cast<size_t>(count), kUnsupervised);
  }
  // The row where `words`, if written now, would begin. They may share their first token with the text before them:
  // then that token's row.
  int64_t row_of(std::string_view words) const {
    const auto before = chat_.tokenizer_.encode_plain(pending_, chat_.marks_);
    return out_.rows() + static_cast<int64_t>(common_prefix(
                             before, chat_.tokenizer_.encode_plain(pending_ + std::string(words), chat_.marks_)));
  }
  void flush() {
    if (pending_.empty()) return;
    for (const text::TokenId id : chat_.tokenizer_.encode_plain(pending_, chat_.marks_)) {
      out_.ids.push_back(id);
      out_.labels.push_back(learnt_ ? id : kUnsupervised);
    }
    pending_.clear();
  }

  // A picture or a video with its markers.
  void vision(VisionInput input) {
    const QwenVlConfig& config = chat_.config_;
    const bool stamped = input.video && chat_.style_ == ChatStyle::kQwen3;
    const int64_t merge = config.vision.spatial_merge_size;
    const int64_t tokens_per_group = input.height / merge * (input.width / merge);
    const int64_t pad = input.video ? config.video_token_id : config.image_token_id;
    Rows block;
    if (stamped) {
      if (learnt_) flush();
      block.begin = row_of(input.stamps.front());
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
  std::string pending_;
  bool learnt_ = false;
};

Chat::Chat(const text::Tokenizer& tokenizer, const QwenVlConfig& config, ChatStyle style)
    : tokenizer_(tokenizer),
      config_(config),
      style_(style),
      im_start_(needed(tokenizer, "<|im_start|>")),
      im_end_(needed(tokenizer, "<|im_end|>")) {
  check_number(tokenizer, "<|image_pad|>", config.image_token_id);
  check_number(tokenizer, "<|video_pad|>", config.video_token_id);
  check_number(tokenizer, "<|vision_start|>", config.vision_start_token_id);
  check_number(tokenizer, "<|vision_end|>", config.vision_end_token_id);
  if (tokenizer.end() > config.text.vocab_size)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: ids up to {}, but the model has a vocabulary of {}; they do not belong together",
                    tokenizer.end() - 1, config.text.vocab_size));
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
