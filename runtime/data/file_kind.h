// What a file that is no JSON lines is instead, for messages.
#pragma once

#include <string>
#include <string_view>

namespace lf {

// Judges a file's first bytes: "text in UTF-16; expected UTF-8: ...", or empty where they look like lines of JSON.
// Repeats none of the bytes: the file may be one that nobody was meant to read.
std::string why_not_json_lines(std::string_view head);

}  // namespace lf
