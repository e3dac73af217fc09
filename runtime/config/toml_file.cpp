#include "config/toml_file.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#define TOML_MAX_NESTED_VALUES 32
// Some malformed keys break an assumption of toml++'s parser instead of giving its parse error.
#define TOML_ASSERT(expression) ((expression) ? void() : lf::malformed_toml())
namespace lf {
struct MalformedToml {};
[[noreturn]] static void malformed_toml() { throw MalformedToml(); }
}  // namespace lf
#include <toml++/toml.h>

namespace lf {
namespace {

// toml++ builds, walks and frees tables by recursion and does not count the parts of a dotted key: a megabyte of
// "a.a.a.a" would overflow the stack.
constexpr int kMostKeyParts = 16;

Place place_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

// The first place where a dotted key has too many parts. Quoted parts are skipped; multi-line strings are scanned as if
// they were keys, which can only refuse prose with 16 words joined by dots.
std::optional<Place> too_many_key_parts(std::string_view text) {
  Place at{1, 0};
  int dots = 0;
  bool in_part = false;
  char quote = 0;
  bool escaped = false;
  for (const char c : text) {
    ++at.column;
    if (c == '\n') {
      at = {at.line + 1, 0};
      dots = 0;
      in_part = false;
      quote = 0;
      escaped = false;
    } else if (quote != 0) {
      if (!escaped && c == quote) quote = 0;
      escaped = !escaped && quote == '"' && c == '\\';
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_part = true;
    } else if (c == '.') {
      dots += in_part;
      in_part = false;
      if (dots >= kMostKeyParts) return at;
    } else if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '#') {
      dots = 0;
      in_part = false;
    } else if (c != ' ' && c != '\t') {
      in_part = true;
    }
  }
  return std::nullopt;
}

TomlNode convert(const toml::node& node) {
  TomlNode out;
  out.at = place_of(node.source());
  switch (node.type()) {
    case toml::node_type::table:
      out.type = TomlNode::Type::kTable;
      for (const auto& [key, value] : *node.as_table())
        out.entries.push_back({std::string(key.str()), place_of(key.source()), convert(value)});
      std::sort(out.entries.begin(), out.entries.end(), [](const TomlEntry& a, const TomlEntry& b) {
        return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
      });
      break;
    case toml::node_type::array:
      out.type = TomlNode::Type::kArray;
      for (const toml::node& item : *node.as_array()) out.items.push_back(convert(item));
      break;
    case toml::node_type::string:
      out.type = TomlNode::Type::kText;
      out.scalar = node.as_string()->get();
      break;
    case toml::node_type::integer:
      out.type = TomlNode::Type::kInteger;
      out.scalar = node.as_integer()->get();
      break;
    case toml::node_type::floating_point:
      out.type = TomlNode::Type::kNumber;
      out.scalar = node.as_floating_point()->get();
      break;
    case toml::node_type::boolean:
      out.type = TomlNode::Type::kBoolean;
      out.scalar = node.as_boolean()->get();
      break;
    default:
      out.type = TomlNode::Type::kDate;
      break;
  }
  return out;
}

struct Line {
  size_t start, end;  // without the line break
};

Line line_of(std::string_view text, uint32_t number) {
  size_t start = 0;
  for (uint32_t line = 1; line < number; ++line) start = text.find('\n', start) + 1;
  return {start, std::min(text.find('\n', start), text.size())};
}

bool is_table_header(std::string_view text, Line line) {
  const size_t first = text.find_first_not_of(" \t", line.start);
  return first < line.end && text[first] == '[';
}

// toml++'s text on one line. A key given twice is said in our words: its own name the type of the first value only.
std::string explained(std::string_view description, bool given_twice) {
  if (given_twice) {
    const size_t first = description.find('\''), last = description.rfind('\'');
    if (first < last)
      return fmt::format("{} is given twice; keep one", description.substr(first + 1, last - first - 1));
  }
  std::string out(description);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return out;
}

}  // namespace

TomlDocument parse_toml(std::string_view text) {
  constexpr size_t kMostDuplicates = 20;
  TomlDocument document;
  if (text.size() > kMostTomlBytes) {
    document.problems.push_back(
        {{},
         fmt::format("expected at most {} bytes of TOML, got {}; is this the job file?", kMostTomlBytes, text.size())});
    return document;
  }
  if (const auto at = too_many_key_parts(text)) {
    document.problems.push_back(
        {*at, fmt::format("expected a key of at most {} parts; no option is nested so deeply", kMostKeyParts)});
    return document;
  }
  std::string remaining(text);
  for (;;) {
    try {
      document.root = convert(toml::parse(remaining));
      document.complete = true;
      return document;
    } catch (const MalformedToml&) {
      document.problems.push_back({Place{}, "not TOML: expected keys of letters, digits, _ and -, or in quotes"});
      return document;
    } catch (const toml::parse_error& error) {
      const Place at = place_of(error.source());
      const bool given_twice = error.description().find("cannot redefine existing") != std::string_view::npos;
      // What looks wrong once the first line of a longer value is blanked is not said.
      if (given_twice || document.problems.empty())
        document.problems.push_back({at, explained(error.description(), given_twice)});
      if (!given_twice || at.line == 0 || document.problems.size() >= kMostDuplicates) return document;
      const Line line = line_of(remaining, at.line);
      if (is_table_header(remaining, line)) return document;  // without it, its keys would fall to another table
      std::fill(remaining.begin() + static_cast<ptrdiff_t>(line.start),
                remaining.begin() + static_cast<ptrdiff_t>(line.end), ' ');  // what follows keeps its place
    }
  }
}

}  // namespace lf
