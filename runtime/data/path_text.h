// Paths as text: files may be named by any bytes, while JSON and messages are UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace lf {

// For people and ids: what is not valid UTF-8 is written out, "caf\xE9.jsonl" with a backslash.
std::string readable(std::string_view bytes);

// For canonical samples (docs/samples.md): the path itself, or where it is not valid UTF-8 its file:// URL.
std::string path_text(std::string path);
// The path that text of path_text() stands for.
std::string path_of(std::string text);

}  // namespace lf
