// A job printed back: as TOML with origins, and as JSON for plugins and the run record.
#include <algorithm>

#include <fmt/format.h>

#include "config/config.h"
#include "config/options.h"

namespace lf {
namespace {

std::string toml_text(const std::string& text) {
  // JSON's escapes are TOML's, but for DEL. Bytes that are no UTF-8 (a path from the system) become U+FFFD.
  const std::string json = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char c : json) {
    if (c == 0x7F)
      out += "\\u007F";
    else
      out += c;
  }
  return out;
}

// An origin names a file, whose name may hold what no comment can: it is then written as in a TOML string.
std::string toml_comment(const std::string& text) {
  const std::string quoted = toml_text(text);
  return quoted == "\"" + text + "\"" ? text : quoted;
}

std::string toml_key(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return bare ? key : toml_text(key);
}

std::string toml_value(const Json& value) {
  if (value.is_string()) return toml_text(value.get<std::string>());
  if (value.is_number_float()) {
    std::string text = fmt::format("{}", value.get<double>());
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + toml_value(item);
    return "[" + text + "]";
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, item] : value.items())
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", toml_key(key), toml_value(item));
    return "{" + text + "}";
  }
  return value.dump();
}

Json nested(const JobConfig& config) {
  Json all = Json::object();
  for (const Option& option : options()) {
    Json* place = &all;
    std::string_view rest = option.name;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      place = &(*place)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*place)[std::string(rest)] = option.get(config);
  }
  return all;
}

}  // namespace

std::string print_config(const ResolvedJob& job) {
  std::string text;
  for (const std::string_view table : option_tables()) {
    std::string lines;
    for (const Option& option : options()) {
      const std::string& origin = job.origins.find(option.name)->second;
      if (option.type == OptionType::kTable && option.name == table) {
        const Json values = option.get(job.config);
        for (const auto& [key, value] : values.items()) {
          const auto own = job.inner_origins.find(fmt::format("{}.{}", option.name, key));
          lines += fmt::format("{} = {}  # {}\n", toml_key(key), toml_value(value),
                               toml_comment(own == job.inner_origins.end() ? origin : own->second));
        }
      } else if (option.type != OptionType::kTable && option.table() == table) {
        lines += fmt::format("{} = {}  # {}\n", option.key(), toml_value(option.get(job.config)), toml_comment(origin));
      }
    }
    if (!lines.empty()) text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", table, lines);
  }
  return text;
}

std::optional<std::string> option_json(const JobConfig& config, std::string_view dotted_name) {
  const Json all = nested(config);
  const Json* place = &all;
  while (!dotted_name.empty()) {
    const size_t end = std::min(dotted_name.find('.'), dotted_name.size());
    const std::string key(dotted_name.substr(0, end));
    if (!place->is_object() || !place->contains(key)) return std::nullopt;
    place = &(*place)[key];
    dotted_name.remove_prefix(std::min(end + 1, dotted_name.size()));
  }
  return place->dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lf
