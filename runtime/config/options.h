// The one definition of every option of job.h. Parsing, --help, docs/options.md, --print-config and the messages are
// made from this table and from nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/job.h"

namespace lf {

using Json = nlohmann::ordered_json;

enum class OptionType { kInteger, kNumber, kBoolean, kText, kPath, kTexts, kPaths, kTable, kTables };

// What is said and checked about a value. `least` and `most` bound numbers and integers; `words` are all that text may
// be, where there are any; `pattern` text has the form of a plugin id or of a folder name.
struct Rule {
  enum class Pattern { kNone, kPluginId, kFolderName };

  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false, below_most = false;  // the bound itself is not allowed
  std::vector<std::string_view> words = {};
  Pattern pattern = Pattern::kNone;
};

struct Option {
  std::string_view name;  // dotted: "data.max_tokens"
  OptionType type;
  std::string_view unit;      // "tokens"; empty: none
  std::string_view sentence;  // for people
  std::string_view fallback;  // what the default is, in words, where it is worked out from other options; else empty
  Rule rule;
  std::function<Json(const JobConfig&)> get;
  std::function<void(JobConfig&, const Json&)> set;  // the value has passed `type` and `rule`
  std::vector<Option> fields = {};                   // of kTables: what each table may say; without get and set

  std::string_view table() const { return name.substr(0, name.rfind('.')); }
  std::string_view key() const { return name.substr(name.rfind('.') + 1); }
};

// In the order of job.h. Constant; made on first use.
const std::vector<Option>& options();

// The tables in that order: "job", "launch", ..., "model.options".
const std::vector<std::string_view>& option_tables();

const Option* find_option(std::string_view name);

std::string_view type_name(OptionType type);  // "integer"
std::string rule_text(const Option& option);  // "in [0, 1)", "one of fast, fixed"; empty: no rule

}  // namespace lf
