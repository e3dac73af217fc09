#include "causal_lm/processor/chat.h"

#include <string>

#include "family/token_writer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::causal_lm {
namespace {

constexpr std::string_view kFamily = "a chat model";

// What Python's str.strip takes for space, as UTF-8 (Unicode's White_Space and the four separators U+001C to U+001F).
constexpr std::string_view kSpaces[] = {"\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",
                                        "\x1f",   " ",      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
                                        "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                        "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

// Bytes of the white space that the text begins or ends with; 0: none.
size_t space_before(std::string_view text) {
  for (const std::string_view space : kSpaces)
    if (text.starts_with(space)) return space.size();
  return 0;
}
size_t space_after(std::string_view text) {
  for (const std::string_view space : kSpaces)
    if (text.ends_with(space)) return space.size();
  return 0;
}

std::string_view trimmed(std::string_view text) {
  while (const size_t bytes = space_before(text)) text.remove_prefix(bytes);
  while (const size_t bytes = space_after(text)) text.remove_suffix(bytes);
  return text;
}

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, int64_t vocabulary, ChatStyle style)
    : tokenizer_(tokenizer), style_(style) {
  const auto token = [&](std::string_view content) { return family::needed_token(tokenizer, content, kFamily); };
  if (style == ChatStyle::kLlama3) {
    begin_ = token("<|begin_of_text|>");
    header_ = token("<|start_header_id|>");
    header_end_ = token("<|end_header_id|>");
    end_ = token("<|eot_id|>");
  } else {
    header_ = token("<|im_start|>");
    end_ = token("<|im_end|>");
  }
  family::check_vocabulary(tokenizer, vocabulary);
}

family::Sequence Chat::encode(const std::vector<family::Message>& messages) const {
  family::Sequence out;
  family::TokenWriter writer(tokenizer_, {}, out);
  if (begin_) writer.token(*begin_, false);
  for (const family::Message& message : messages) {
    writer.token(header_, false);
    writer.text(message.role, false);
    if (header_end_) writer.token(*header_end_, false);
    writer.text(style_ == ChatStyle::kLlama3 ? "\n\n" : "\n", false);
    std::string content;
    for (const family::Item& item : message.content) {
      const auto* words = std::get_if<family::TextItem>(&item);
      if (words == nullptr)
        throw sdk::Failure(LF_E_DATA, "a picture or a video: this model reads text only; choose another family");
      content += words->text;
    }
    writer.text(style_ == ChatStyle::kLlama3 ? trimmed(content) : content, message.train);
    writer.token(end_, message.train);
    if (style_ == ChatStyle::kChatMl) writer.text("\n", false);
  }
  writer.flush();
  return out;
}

family::Sequence Chat::encode(std::string_view text) const {
  family::Sequence out;
  family::TokenWriter writer(tokenizer_, {}, out);
  if (begin_) writer.token(*begin_, false);
  writer.text(text, true);
  writer.token(
      family::needed_token(tokenizer_, style_ == ChatStyle::kLlama3 ? "<|end_of_text|>" : "<|endoftext|>", kFamily),
      true);
  return out;
}

}  // namespace lf::causal_lm
