// The canonical sample (docs/samples.md) as this family reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lf::family {

struct TextItem {
  std::string text;
};
struct ImageItem {
  std::string path;
};
struct VideoItem {
  std::string path;                 // or
  std::vector<std::string> frames;  // pictures
  double fps = 0;                   // 0: not given
};
using Item = std::variant<TextItem, ImageItem, VideoItem>;

struct Message {
  std::string role;
  bool train = false;
  std::vector<Item> content;
};

// Both throw sdk::Failure LF_E_DATA, naming the field.
std::vector<Message> parse_conversation(std::string_view json);
// The words of a sample that is a plain text, {"text": ...}; nothing where it is not.
std::optional<std::string> parse_plain_text(std::string_view json);

}  // namespace lf::family
