// TOML text as a tree of our own with the place of every key and value: the only part of config that sees toml++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lf {

struct Place {  // counted from 1, columns in characters; 0, 0: the file as a whole
  uint32_t line = 0, column = 0;
};

struct TomlEntry;

struct TomlNode {
  enum class Type { kTable, kArray, kText, kInteger, kNumber, kBoolean, kDate };

  Type type = Type::kTable;
  Place at;
  nlohmann::ordered_json scalar;   // kText, kInteger, kNumber, kBoolean
  std::vector<TomlNode> items;     // kArray
  std::vector<TomlEntry> entries;  // kTable, in the order of the text
};

struct TomlEntry {
  std::string key;
  Place at;
  TomlNode value;
};

struct TomlProblem {
  Place at;
  std::string text;
};

struct TomlDocument {
  TomlNode root;
  bool complete = false;  // root holds the whole document, but for values of keys given a second time
  // Syntax: reading ends at the first, except that a key given twice does not end it.
  std::vector<TomlProblem> problems;
};

// Never throws for what the text holds; refuses more than kMostTomlBytes and absurd nesting before they cost anything.
inline constexpr size_t kMostTomlBytes = 1 << 20;
TomlDocument parse_toml(std::string_view text);

}  // namespace lf
