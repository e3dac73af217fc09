#include "internvl/processor/chat.h"

#include <utility>

#include <fmt/format.h>

#include "family/token_writer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::internvl {
namespace {

using family::needed_token;
using family::Rows;
using family::Sequence;
using family::TextItem;
using family::VisionInput;

constexpr std::string_view kFamily = "InternVL";
// conversation.py, internvl2_5: "You are Shusheng Wanxiang, English name InternVL, a multimodal large language model
// developed jointly by Shanghai AI Laboratory, Tsinghua University and partners."
constexpr std::string_view kDefaultSystem =
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。";

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, const InternVlConfig& config, ChatStyle style)
    : tokenizer_(tokenizer),
      config_(config),
      style_(style),
      im_start_(needed_token(tokenizer, "<|im_start|>", kFamily)),
      im_end_(needed_token(tokenizer, "<|im_end|>", kFamily)),
      img_(needed_token(tokenizer, "<img>", kFamily)),
      img_end_(needed_token(tokenizer, "</img>", kFamily)),
      context_(needed_token(tokenizer, "<IMG_CONTEXT>", kFamily)) {
  if (config.image_token_id) family::check_token(tokenizer, "<IMG_CONTEXT>", kFamily, *config.image_token_id);
  family::check_vocabulary(tokenizer, config.text.vocab_size);
  if (config.text_type == "internlm2" || config.text_type == "llama") begin_ = tokenizer.added_token("<s>");
  for (const std::string_view kind : {"ref", "box", "quad"})
    for (const std::string_view slash : {"", "/"})
      if (const auto id = tokenizer.added_token(fmt::format("<{}{}>", slash, kind))) marks_.push_back(*id);
}

Sequence Chat::encode(const std::vector<family::Message>& messages, std::vector<VisionInput> vision) const {
  Sequence out;
  family::TokenWriter writer(tokenizer_, marks_, out);
  const auto picture = [&](int64_t tiles) {
    writer.token(img_, false);
    writer.tokens(context_, tiles * config_.tile_tokens());
    writer.token(img_end_, false);
  };
  const auto write = [&](VisionInput input) {
    Rows block;
    if (input.video) {
      block.begin = writer.begin_of("Frame1: ");
      for (int64_t frame = 0; frame < input.groups; ++frame) {
        writer.text(fmt::format("{}Frame{}: ", frame > 0 ? "\n" : "", frame + 1), false);
        picture(1);
      }
    } else {
      writer.flush();
      block.begin = out.rows();
      picture(input.groups);
    }
    block.end = out.rows();
    out.blocks.push_back(block);
    out.vision.push_back(std::move(input));
  };

  if (begin_) writer.token(*begin_, false);
  size_t next = 0;
  if (style_ == ChatStyle::kOriginal && !messages.empty() && messages.front().role != "system") {
    writer.token(im_start_, false);
    writer.text(fmt::format("system\n{}", kDefaultSystem), false);
    writer.token(im_end_, false);
    writer.text("\n", false);
  }
  for (const family::Message& message : messages) {
    writer.token(im_start_, false);
    writer.text(message.role + "\n", false);
    for (size_t i = 0; i < message.content.size(); ++i) {
      if (const auto* words = std::get_if<TextItem>(&message.content[i])) {
        writer.text(words->text, message.train);
      } else {
        write(std::move(vision.at(next++)));
        const auto* follows = i + 1 < message.content.size() ? std::get_if<TextItem>(&message.content[i + 1]) : nullptr;
        if (style_ == ChatStyle::kTransformers && (follows == nullptr || !follows->text.starts_with('\n')))
          writer.text("\n", false);
      }
    }
    writer.token(im_end_, message.train);
    writer.text("\n", false);
  }
  writer.flush();
  return out;
}

}  // namespace lf::internvl
