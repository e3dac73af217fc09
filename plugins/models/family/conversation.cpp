#include "family/conversation.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& place, std::string_view expected) {
  throw sdk::Failure(LF_E_DATA, fmt::format("{}: expected {}", place, expected));
}

// The sample as the host wrote it has no messages.
[[noreturn]] void refuse_other_samples(const json& sample) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : sample.items())
    if (key != "id") keys.push_back(fmt::format("\"{}\"", key));  // the host's own
  refuse("sample", fmt::format("a conversation (\"messages\" or \"conversations\"), which this model family learns "
                               "from, got one with {}; docs/samples.md shows conversations{}",
                               keys.empty() ? "no content" : fmt::format("{}", fmt::join(keys, ", ")),
                               sample.contains("text") ? ", and causal_lm and deepseek learn plain texts" : ""));
}

std::string text_of(const json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) refuse(fmt::format("{}.{}", place, key), "a string");
  return *found;
}

Item read_item(const json& item, const std::string& place) {
  if (!item.is_object()) refuse(place, "an object");
  const std::string type = text_of(item, "type", place);
  if (type == "text") return TextItem{text_of(item, "text", place)};
  if (type == "image") return ImageItem{text_of(item, "path", place)};
  if (type != "video") refuse(place + ".type", fmt::format("text, image or video, got {:?}", type));
  VideoItem video;
  if (const auto fps = item.find("fps"); fps != item.end() && !fps->is_null()) {
    if (!fps->is_number() || !(fps->get<double>() > 0) || !std::isfinite(fps->get<double>()))
      refuse(place + ".fps", "a number above 0");
    video.fps = *fps;
  }
  const auto frames = item.find("frames");
  if (frames == item.end()) {
    video.path = text_of(item, "path", place);
    return video;
  }
  if (!frames->is_array() || frames->empty()) refuse(place + ".frames", "a list of paths");
  for (const json& frame : *frames) {
    if (!frame.is_string()) refuse(place + ".frames", "a list of paths");
    video.frames.push_back(frame);
  }
  return video;
}

}  // namespace

std::optional<std::string> parse_plain_text(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("text")) return std::nullopt;
  const json& words = root["text"];
  if (!words.is_string() || words.get_ref<const std::string&>().empty()) refuse("text", "a string that is not empty");
  return words.get<std::string>();
}

std::vector<Message> parse_conversation(std::string_view text) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    throw sdk::Failure(LF_E_DATA, fmt::format("sample: expected JSON: {}", error.what()));
  }
  const auto list = root.find("messages");
  if (root.is_object() && list == root.end()) refuse_other_samples(root);
  if (list == root.end() || !list->is_array() || list->empty()) refuse("messages", "a list with at least one message");
  std::vector<Message> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& from = (*list)[i];
    const std::string place = fmt::format("messages[{}]", i);
    if (!from.is_object()) refuse(place, "an object");
    Message message;
    message.role = text_of(from, "role", place);
    message.train = message.role == "assistant";
    if (const auto train = from.find("train"); train != from.end() && !train->is_null()) {
      if (!train->is_boolean()) refuse(place + ".train", "true or false");
      message.train = *train;
    }
    const auto content = from.find("content");
    if (content == from.end() || !content->is_array()) refuse(place + ".content", "a list of items");
    for (size_t j = 0; j < content->size(); ++j)
      message.content.push_back(read_item((*content)[j], fmt::format("{}.content[{}]", place, j)));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace lf::family
