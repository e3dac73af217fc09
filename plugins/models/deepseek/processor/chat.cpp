#include "deepseek/processor/chat.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "family/token_writer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

constexpr std::string_view kUser = "<｜User｜>", kAssistant = "<｜Assistant｜>";

text::TokenId needed(const text::Tokenizer& tokenizer, std::string_view content) {
  return family::needed_token(tokenizer, content, "DeepSeek");
}

void put(family::Sequence& out, int64_t id, bool learnt) {
  out.ids.push_back(id);
  out.labels.push_back(learnt ? id : family::kUnsupervised);
}

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, int64_t vocabulary, ChatStyle style)
    : tokenizer_(tokenizer),
      style_(style),
      begin_(needed(tokenizer, "<｜begin▁of▁sentence｜>")),
      end_(needed(tokenizer, "<｜end▁of▁sentence｜>")),
      user_(needed(tokenizer, kUser)),
      assistant_(needed(tokenizer, kAssistant)) {
  if (style == ChatStyle::kV31) no_thinking_ = needed(tokenizer, "</think>");
  family::check_vocabulary(tokenizer, vocabulary);
}

void Chat::write(family::Sequence& out, std::string_view text, bool learnt) const {
  while (!text.empty()) {
    // A role that the text spells is cut after its first letter, so that it stays text.
    const size_t forged = std::min(text.find(kUser), text.find(kAssistant));
    const size_t length = forged == std::string_view::npos ? text.size() : forged + 1;
    for (const text::TokenId id : tokenizer_.encode_plain(text.substr(0, length))) put(out, id, learnt);
    text.remove_prefix(length);
  }
}

family::Sequence Chat::encode(const std::vector<family::Message>& messages) const {
  family::Sequence out;
  put(out, begin_, false);
  for (const family::Message& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      throw sdk::Failure(LF_E_DATA,
                         fmt::format("a message of role {}: deepseek has system, user and assistant", message.role));
    const bool answer = message.role == "assistant";
    if (message.role == "user") put(out, user_, false);
    if (answer) {
      put(out, assistant_, false);
      if (style_ == ChatStyle::kV31) put(out, no_thinking_, false);
    }
    std::string words;
    for (const family::Item& item : message.content) {
      const auto* text = std::get_if<family::TextItem>(&item);
      if (text == nullptr) throw sdk::Failure(LF_E_DATA, "a picture or a video: a deepseek model reads text only");
      words += text->text;
    }
    write(out, words, message.train);
    if (answer) put(out, end_, message.train);
  }
  return out;
}

family::Sequence Chat::encode(std::string_view text) const {
  family::Sequence out;
  put(out, begin_, false);
  write(out, text, true);
  put(out, end_, true);
  return out;
}

}  // namespace lf::deepseek
