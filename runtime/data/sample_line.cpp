#include "data/sample_line.h"

#include "data/conversation.h"

namespace lf {
namespace {

// Of JSON: far above what a conversation needs, far below what would cost memory.
constexpr size_t kMaxDepth = 64;

}  // namespace

SampleLine::SampleLine(const std::string& text, std::string place) : place_(std::move(place)) {
  auto error = parser_.allocate(text.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser_.parse(text.data(), text.size(), false).get(object_);
  if (error == simdjson::UTF8_ERROR) throw BadSample(place_ + ": not valid UTF-8");
  if (error == simdjson::DEPTH_ERROR) throw BadSample(fmt::format("{}: nested deeper than {}", place_, kMaxDepth));
  if (error == simdjson::STRING_ERROR)
    throw BadSample(place_ + ": not valid JSON: an unknown escape in a string, or half of a surrogate pair");
  if (error != simdjson::SUCCESS)
    throw BadSample(fmt::format("{}: not valid JSON: {}", place_, simdjson::error_message(error)));
  if (!object_.is_object()) throw BadSample(place_ + ": expected a JSON object");
}

std::string SampleLine::canonical(SourceFormat format, const MediaPlaces& media, bool train_all) const {
  try {
    if (format == SourceFormat::kText) return canonical_text(object_, place_);
    Conversation conversation = read_conversation(object_, format);
    place_media(conversation);
    check_conversation(conversation, media, train_all);
    if (conversation.id.empty()) conversation.id = place_;
    return canonical_json(conversation);
  } catch (const FieldError& wrong) {
    throw BadSample(fmt::format("{}: {}", place_, wrong.what()));
  }
}

BadSample too_long_a_line(const std::string& place, uint64_t bytes) {
  return BadSample(fmt::format("{}: a line of {} bytes; expected at most {}", place, bytes, kMaxLineBytes));
}

}  // namespace lf
