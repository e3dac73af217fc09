// The formats that conversations come in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "data/conversation.h"

namespace lf {

enum class SourceFormat { kShareGpt, kMessages, kText };

// Of data.format where it is not "auto".
SourceFormat named_format(std::string_view name);
std::string_view to_string(SourceFormat format);

// "messages" wins where an object has both keys.
std::optional<SourceFormat> detect_format(simdjson::dom::element line);

// A plain text, {"text": ...}, in its canonical form. `place` is its id where it has none. Throws FieldError.
std::string canonical_text(simdjson::dom::element line, const std::string& place);

// Reads one line's object of the other two formats; other keys than those of docs/data.md are left alone. Throws
// FieldError.
Conversation read_conversation(simdjson::dom::element line, SourceFormat format);

}  // namespace lf
