#include "data/path_text.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <simdjson.h>

namespace lf {
namespace {

constexpr std::string_view kFileUrl = "file://";

// Of the character that begins here, or 0 where none does.
size_t character_bytes(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(4, text.size()); ++count)
    if (simdjson::validate_utf8(text.data(), count)) return count;
  return 0;
}

int digit_of(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

}  // namespace

std::string readable(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  std::string out;
  while (!bytes.empty()) {
    const size_t count = character_bytes(bytes);
    if (count == 0)
      fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<unsigned char>(bytes.front()));
    else
      out += bytes.substr(0, count);
    bytes.remove_prefix(std::max<size_t>(count, 1));
  }
  return out;
}

std::string path_text(std::string path) {
  if (simdjson::validate_utf8(path)) return path;
  std::string url(kFileUrl);
  for (const char c : path) {
    const bool as_it_is = c == '/' || c == '.' || c == '-' || c == '_' || (c >= '0' && c <= '9') ||
                          (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (as_it_is)
      url += c;
    else
      fmt::format_to(std::back_inserter(url), "%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

std::string path_of(std::string text) {
  if (!text.starts_with(kFileUrl)) return text;
  const std::string_view url = std::string_view(text).substr(kFileUrl.size());
  std::string out;
  for (size_t i = 0; i < url.size(); ++i) {
    const int high = i + 2 < url.size() && url[i] == '%' ? digit_of(url[i + 1]) : -1;
    const int low = high >= 0 ? digit_of(url[i + 2]) : -1;
    out += low >= 0 ? static_cast<char>(high * 16 + low) : url[i];
    if (low >= 0) i += 2;
  }
  return out;
}

}  // namespace lf
