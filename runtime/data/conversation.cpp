#include "data/conversation.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "data/json_text.h"

namespace lf {
namespace {

constexpr std::string_view kImageMarker = "<image>", kVideoMarker = "<video>";

// Names that public data sets use for the four roles.
std::string_view canonical_role(const Message& message) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"user", "user"},       {"human", "user"},       {"assistant", "assistant"}, {"gpt", "assistant"},
      {"model", "assistant"}, {"bot", "assistant"},    {"chatgpt", "assistant"},   {"system", "system"},
      {"tool", "tool"},       {"observation", "tool"}, {"function", "tool"},       {"function_call", "assistant"}};
  for (const auto& [name, role] : kNames)
    if (name == message.role) return role;
  throw FieldError(message.field, fmt::format("unknown role '{}'; expected system, user, assistant or tool (or human, "
                                              "gpt)",
                                              message.role.substr(0, 40)));
}

bool awaits_media(const Item& item) { return item.kind != ItemKind::kText && item.path.empty() && item.frames.empty(); }

// The text's pieces between its markers, and an empty item for each marker.
void split_at_markers(const std::string& text, std::vector<Item>& out) {
  size_t from = 0;
  const auto add_text = [&](size_t to) {
    if (to > from) out.push_back({.text = text.substr(from, to - from)});
  };
  for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at)) {
    const std::string_view rest = std::string_view(text).substr(at);
    const bool image = rest.starts_with(kImageMarker);
    if (!image && !rest.starts_with(kVideoMarker)) {
      ++at;
      continue;
    }
    add_text(at);
    out.push_back({.kind = image ? ItemKind::kImage : ItemKind::kVideo});
    at = from = at + (image ? kImageMarker : kVideoMarker).size();
  }
  add_text(text.size());
}

void check_count(const char* kind, std::string_view marker, size_t markers, size_t media) {
  if (markers != media)
    throw FieldError(kind, fmt::format("{} {} marker{} in the messages for {} {}{}", markers, marker,
                                       markers == 1 ? "" : "s", media, kind, media == 1 ? "" : "s"));
}

std::string_view field_of(const Item& item) { return item.kind == ItemKind::kImage ? "image" : "video"; }

void check_items(Message& message, const MediaPlaces& media) {
  bool anything = false;
  for (Item& item : message.items) {
    if (item.kind == ItemKind::kText) {
      anything = anything || item.text.find_first_not_of(" \t\r\n") != item.text.npos;
      continue;
    }
    anything = true;
    if (item.frames.empty())
      item.path = media.resolve(item.path, field_of(item));
    else
      for (std::string& frame : item.frames) frame = media.resolve(frame, field_of(item));
  }
  if (!anything) throw FieldError(message.field, "empty content");
}

void append_item(std::string& out, const Item& item) {
  if (item.kind == ItemKind::kText) {
    out += R"({"type":"text","text":)";
    append_json_string(out, item.text);
  } else {
    out += item.kind == ItemKind::kImage ? R"({"type":"image")" : R"({"type":"video")";
    if (item.frames.empty()) {
      out += R"(,"path":)";
      append_json_string(out, item.path);
    } else {
      out += R"(,"frames":[)";
      for (size_t i = 0; i < item.frames.size(); ++i) {
        if (i > 0) out += ',';
        append_json_string(out, item.frames[i]);
      }
      out += ']';
    }
    if (item.fps > 0) out += fmt::format(R"(,"fps":{})", item.fps);
  }
  out += '}';
}

}  // namespace

void place_media(Conversation& conversation) {
  const bool has_lists = !conversation.images.empty() || !conversation.videos.empty();
  size_t images = 0, videos = 0;
  for (Message& message : conversation.messages) {
    std::vector<Item> items;
    for (Item& item : message.items) {
      if (item.kind != ItemKind::kText || (item.literal && !has_lists))
        items.push_back(std::move(item));
      else
        split_at_markers(item.text, items);
    }
    message.items = std::move(items);
    for (const Item& item : message.items)
      if (awaits_media(item)) ++(item.kind == ItemKind::kImage ? images : videos);
  }
  check_count("image", kImageMarker, images, conversation.images.size());
  check_count("video", kVideoMarker, videos, conversation.videos.size());

  auto next_image = conversation.images.begin(), next_video = conversation.videos.begin();
  for (Message& message : conversation.messages)
    for (Item& item : message.items) {
      if (!awaits_media(item)) continue;
      const double fps = item.fps;
      item = std::move(*(item.kind == ItemKind::kImage ? next_image++ : next_video++));
      if (fps > 0) item.fps = fps;  // where a part says what its list does not
    }
}

void check_conversation(Conversation& conversation, const MediaPlaces& media, bool train_all) {
  if (conversation.messages.empty()) throw FieldError("", "a conversation without messages");
  bool any_trained = false;
  std::string_view previous;
  for (Message& message : conversation.messages) {
    message.role = canonical_role(message);
    if (message.role == previous) throw FieldError(message.field, fmt::format("role {} twice in a row", message.role));
    if (message.role == "system" && !previous.empty())
      throw FieldError(message.field, "a system message that is not the first");
    check_items(message, media);
    message.train = message.train.value_or(train_all || message.role == "assistant");
    any_trained = any_trained || *message.train;
    previous = message.role;
  }
  if (!any_trained)
    throw FieldError("", "no message to learn from: none of an assistant, and none says \"train\": true");
}

std::string canonical_json(const Conversation& conversation) {
  std::string out = R"({"id":)";
  append_json_string(out, conversation.id);
  out += R"(,"messages":[)";
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    out += fmt::format(R"({}{{"role":"{}","train":{},"content":[)", i > 0 ? "," : "", message.role,
                       message.train.value_or(false));
    for (size_t j = 0; j < message.items.size(); ++j) {
      if (j > 0) out += ',';
      append_item(out, message.items[j]);
    }
    out += "]}";
  }
  return out + "]}";
}

}  // namespace lf
