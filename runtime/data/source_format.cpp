#include "data/source_format.h"

#include <array>

#include <fmt/format.h>

#include "data/json_text.h"

namespace lf {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr double kMostFramesPerSecond = 1000;

std::string_view type_name(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "true or false";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

[[noreturn]] void expected(const std::string& field, std::string_view what, element got) {
  throw FieldError(field, fmt::format("expected {}, got {}", what, type_name(got)));
}

std::string text_of(element value, const std::string& field) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) expected(field, "a string", value);
  return std::string(text);
}

simdjson::dom::array list_of(element value, const std::string& field) {
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) expected(field, "a list", value);
  return list;
}

simdjson::dom::object object_of(element value, const std::string& field) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) expected(field, "an object", value);
  return object;
}

// The values of the keys that a reader knows. A key given twice is an error: parsers differ in which one they take.
template <size_t N>
std::array<std::optional<element>, N> pick(element value, const std::string& field, const std::string_view (&keys)[N]) {
  std::array<std::optional<element>, N> found;
  for (const auto& [key, member] : object_of(value, field)) {
    for (size_t i = 0; i < N; ++i) {
      if (key != keys[i]) continue;
      if (found[i]) throw FieldError(field, fmt::format("key \"{}\" twice", key));
      found[i] = member;
    }
  }
  return found;
}

// null stands for absent, as tools that write every column do.
bool given(const std::optional<element>& value) { return value && !value->is_null(); }

std::string below(const std::string& field, std::string_view key) {
  return field.empty() ? std::string(key) : fmt::format("{}.{}", field, key);
}

double number_of(element value, const std::string& field) {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS) expected(field, "a number", value);
  return number;
}

double rate_of(element value, const std::string& field) {
  const double rate = number_of(value, field);
  if (!(rate > 0) || rate > kMostFramesPerSecond)
    throw FieldError(
        field, fmt::format("expected frames per second above 0 and at most {}, got {}", kMostFramesPerSecond, rate));
  return rate;
}

std::vector<std::string> frames_of(element value, const std::string& field) {
  std::vector<std::string> frames;
  for (const element frame : list_of(value, field)) frames.push_back(text_of(frame, field));
  if (frames.empty()) throw FieldError(field, "a video of no frames");
  return frames;
}

// A path; an object with path (or url), or with frames, and fps; of a video also a list of frames.
Item read_medium(element value, ItemKind kind, const std::string& field) {
  Item item{.kind = kind};
  if (value.is_string()) {
    item.path = text_of(value, field);
  } else if (kind == ItemKind::kVideo && value.is_array()) {
    item.frames = frames_of(value, field);
  } else if (value.is_object()) {
    const auto [path, url, frames, fps] = pick(value, field, {"path", "url", "frames", "fps"});
    if (kind == ItemKind::kVideo && given(fps)) item.fps = rate_of(*fps, below(field, "fps"));
    if (kind == ItemKind::kVideo && given(frames))
      item.frames = frames_of(*frames, below(field, "frames"));
    else if (given(path))
      item.path = text_of(*path, below(field, "path"));
    else if (given(url))
      item.path = text_of(*url, below(field, "url"));
    else
      throw FieldError(field, "expected a path");
  } else {
    expected(field, "a path", value);
  }
  if (item.path.empty() && item.frames.empty()) throw FieldError(field, "empty path");
  return item;
}

// The sample's own media: one or a list, under the singular or the plural key.
std::vector<Item> read_media(const std::optional<element>& one, const std::optional<element>& many, ItemKind kind,
                             const std::string& field) {
  if (given(one) && given(many))
    throw FieldError(field, fmt::format("both \"{}\" and \"{}s\" are given", field, field));
  if (!given(one) && !given(many)) return {};
  const element value = given(one) ? *one : *many;
  if (!value.is_array()) return {read_medium(value, kind, field)};
  std::vector<Item> media;
  for (const element medium : list_of(value, field))
    media.push_back(read_medium(medium, kind, fmt::format("{}[{}]", field, media.size())));
  return media;
}

std::optional<bool> read_train(const std::optional<element>& train, const std::optional<element>& weight,
                               const std::string& field) {
  if (given(train)) {
    bool flag = false;
    if (train->get(flag) != simdjson::SUCCESS) expected(below(field, "train"), "true or false", *train);
    return flag;
  }
  if (given(weight)) {
    const double number = number_of(*weight, below(field, "weight"));
    if (number != 0 && number != 1)
      throw FieldError(below(field, "weight"), fmt::format("expected 0 or 1, got {}", number));
    return number == 1;
  }
  return std::nullopt;
}

Item read_part(element part, const std::string& field) {
  const auto [type_value, text, image, image_url, video, video_url, path, fps] =
      pick(part, field, {"type", "text", "image", "image_url", "video", "video_url", "path", "fps"});
  if (!given(type_value)) throw FieldError(field, "expected \"type\"");
  const std::string type = text_of(*type_value, below(field, "type"));
  if (type == "text") {
    if (!given(text)) throw FieldError(field, "expected \"text\"");
    return {.text = text_of(*text, below(field, "text")), .literal = true};
  }
  const bool is_image = type == "image" || type == "image_url";
  if (!is_image && type != "video" && type != "video_url")
    throw FieldError(field, fmt::format("unknown type '{}'; expected text, image or video", type.substr(0, 40)));
  const ItemKind kind = is_image ? ItemKind::kImage : ItemKind::kVideo;
  const std::optional<element>& named = is_image ? image : video;
  const std::optional<element>& address = is_image ? image_url : video_url;
  const std::optional<element>& source = given(named) ? named : given(address) ? address : path;
  // Without a source it is the next of the sample's list.
  Item item = given(source) ? read_medium(*source, kind, field) : Item{.kind = kind};
  if (!is_image && given(fps)) item.fps = rate_of(*fps, below(field, "fps"));
  return item;
}

std::vector<Item> read_content(element content, const std::string& field) {
  if (content.is_string()) return {{.text = text_of(content, field)}};
  if (!content.is_array()) expected(field, "a string or a list of parts", content);
  std::vector<Item> items;
  for (const element part : list_of(content, field))
    items.push_back(read_part(part, fmt::format("{}[{}]", field, items.size())));
  return items;
}

std::string read_id(const std::optional<element>& id) {
  if (!given(id)) return "";
  if (id->is_string()) return text_of(*id, "id");
  if (!id->is_number()) expected("id", "a string or a number", *id);
  return simdjson::minify(*id);
}

}  // namespace

SourceFormat named_format(std::string_view name) {
  return name == "sharegpt" ? SourceFormat::kShareGpt : name == "text" ? SourceFormat::kText : SourceFormat::kMessages;
}

std::string_view to_string(SourceFormat format) {
  return format == SourceFormat::kShareGpt ? "sharegpt" : format == SourceFormat::kText ? "text" : "messages";
}

std::optional<SourceFormat> detect_format(element line) {
  if (line["messages"].error() == simdjson::SUCCESS) return SourceFormat::kMessages;
  if (line["conversations"].error() == simdjson::SUCCESS) return SourceFormat::kShareGpt;
  if (line["text"].error() == simdjson::SUCCESS) return SourceFormat::kText;
  return std::nullopt;
}

std::string canonical_text(element line, const std::string& place) {
  const auto [id, text] = pick(line, "", {"id", "text"});
  if (!text) throw FieldError("", "expected \"text\": the file is read as text");
  const std::string words = text_of(*text, "text");
  if (words.empty()) throw FieldError("text", "expected a text that is not empty");
  const std::string own = read_id(id);
  std::string out = R"({"id":)";
  append_json_string(out, own.empty() ? place : own);
  out += R"(,"text":)";
  append_json_string(out, words);
  return out + "}";
}

Conversation read_conversation(element line, SourceFormat format) {
  const bool sharegpt = format == SourceFormat::kShareGpt;
  const std::string list = sharegpt ? "conversations" : "messages";
  const auto [id, turns, system, image, images, video, videos] =
      pick(line, "", {"id", list, "system", "image", "images", "video", "videos"});
  if (!turns) throw FieldError("", fmt::format("expected \"{}\": the file is read as {}", list, to_string(format)));

  Conversation out;
  out.id = read_id(id);
  out.images = read_media(image, images, ItemKind::kImage, "image");
  out.videos = read_media(video, videos, ItemKind::kVideo, "video");
  if (given(system)) {
    std::string text = text_of(*system, "system");
    if (!text.empty())
      out.messages.push_back({.role = "system", .items = {{.text = std::move(text)}}, .field = "system"});
  }
  size_t index = 0;
  for (const element turn : list_of(*turns, list)) {
    Message message{.field = fmt::format("{}[{}]", list, index++)};
    const auto [role, content, train, weight] = sharegpt
                                                    ? pick(turn, message.field, {"from", "value", "train", "weight"})
                                                    : pick(turn, message.field, {"role", "content", "train", "weight"});
    const char* role_key = sharegpt ? "from" : "role";
    const char* content_key = sharegpt ? "value" : "content";
    if (!role) throw FieldError(message.field, fmt::format("expected \"{}\"", role_key));
    if (!content) throw FieldError(message.field, fmt::format("expected \"{}\"", content_key));
    message.role = text_of(*role, below(message.field, role_key));
    message.train = read_train(train, weight, message.field);
    message.items = read_content(*content, below(message.field, content_key));
    out.messages.push_back(std::move(message));
  }
  return out;
}

}  // namespace lf
