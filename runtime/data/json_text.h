// Writing JSON strings.
#pragma once

#include <string>
#include <string_view>

namespace lf {

// Appends `text` (valid UTF-8) quoted and escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace lf
