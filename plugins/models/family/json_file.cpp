#include "family/json_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {
namespace {

using nlohmann::json;

constexpr const char* kCorrect = "correct the file, or take it anew from where the model is published";

// nlohmann's messages begin with a tag of its own, "[json.exception.parse_error.101] ".
std::string without_tag(const std::string& message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

}  // namespace

std::optional<json> read_json_object(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open() && errno == ENOENT) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw sdk::Failure(
        LF_E_INVALID, fmt::format("{}: cannot be read: {}; make it a readable file, or remove it if the model has none",
                                  path.string(), std::strerror(errno)));
  json value;
  try {
    value = json::parse(text);
  } catch (const json::exception& error) {
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected a JSON object, got: {}; {}", path.string(),
                                                 without_tag(error.what()), kCorrect));
  }
  if (!value.is_object())
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected a JSON object, got {}; {}", path.string(),
                                                 value.dump().substr(0, 60), kCorrect));
  return value;
}

}  // namespace lf::family
