// The formats that conversations come in.
#pragma once

#include <optional>
#include <string_view>

#include <simdjson.h>

#include "data/conversation.h"

namespace lf {

enum class SourceFormat { kShareGpt, kMessages };

std::string_view to_string(SourceFormat format);

// "messages" wins where an object has both keys.
std::optional<SourceFormat> detect_format(simdjson::dom::element line);

// Reads one line's object; other keys than those of docs/data.md are left alone. Throws FieldError.
Conversation read_conversation(simdjson::dom::element line, SourceFormat format);

}  // namespace lf
