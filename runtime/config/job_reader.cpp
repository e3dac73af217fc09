// From TOML, --set and the environment to a JobConfig, collecting every mistake on the way.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/job_checks.h"
#include "config/nearest.h"
#include "config/options.h"
#include "config/set_text.h"
#include "config/toml_file.h"
#include "core/error.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 100;  // of a refusal

std::string shown(const TomlNode& node) {  // what came, for messages
  constexpr size_t kMost = 40;
  const auto cut = [](std::string text) {
    if (text.size() <= kMost) return text;
    size_t end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // between characters
    return text.substr(0, end) + "...";
  };
  switch (node.type) {
    case TomlNode::Type::kTable:
      return "a table";
    case TomlNode::Type::kArray:
      return "a list";
    case TomlNode::Type::kText:
      return "text " + Json(cut(node.scalar.get<std::string>())).dump();
    case TomlNode::Type::kInteger:
      return "integer " + node.scalar.dump();
    case TomlNode::Type::kNumber:
      return fmt::format("number {}", node.scalar.get<double>());
    case TomlNode::Type::kBoolean:
      return node.scalar.dump();
    case TomlNode::Type::kDate:
      return "a date or time";
  }
  return "";
}

std::string expected_type(OptionType type) {
  switch (type) {
    case OptionType::kInteger:
      return "an integer";
    case OptionType::kNumber:
      return "a number";
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kText:
      return "text in quotes";
    case OptionType::kPath:
      return "a path in quotes";
    case OptionType::kTexts:
      return "a list of texts";
    case OptionType::kPaths:
      return "a path in quotes, or a list of them";
    case OptionType::kTable:
      return "a table";
    case OptionType::kTables:
      return "a list of tables";
  }
  return "";
}

bool is_plugin_id(std::string_view text) {
  return text.size() >= 2 && text.size() <= 64 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string_view::npos;
}

bool is_folder_name(std::string_view text) {
  return !text.empty() && text.size() <= 100 && text != "." && text != ".." &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20; });
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string rule_broken(const Option& option, const TomlNode& node) {
  const Rule& rule = option.rule;
  if (node.type == TomlNode::Type::kInteger || node.type == TomlNode::Type::kNumber) {
    const double value = node.scalar.get<double>();
    const bool low = rule.above_least ? value <= rule.least : value < rule.least;
    const bool high = rule.below_most ? value >= rule.most : value > rule.most;
    if (std::isfinite(value) && !low && !high) return "";
    const std::string unit = option.unit.empty() ? "" : fmt::format(" ({})", option.unit);
    const std::string range = rule_text(option);
    return fmt::format("{} must be {}{}, got {}", option.name, range.empty() ? "finite" : range, unit,
                       node.type == TomlNode::Type::kInteger ? node.scalar.dump() : fmt::format("{}", value));
  }
  if (node.type == TomlNode::Type::kText) {
    const auto& text = node.scalar.get_ref<const std::string&>();
    if (!rule.words.empty() && std::find(rule.words.begin(), rule.words.end(), text) == rule.words.end())
      return fmt::format("{} must be {}, got {}", option.name, rule_text(option), shown(node));
    if ((rule.pattern == Rule::Pattern::kPluginId && !is_plugin_id(text)) ||
        (rule.pattern == Rule::Pattern::kFolderName && !is_folder_name(text)))
      return fmt::format("{} must be {}, got {}", option.name, rule_text(option), shown(node));
  }
  return "";
}

class Reader {
 public:
  Reader(const JobSource& source, fs::path working_directory)
      : source_(source), working_directory_(std::move(working_directory)) {
    job_.config.file = fs::absolute(working_directory_ / source.file).lexically_normal();
    for (const Option& option : options()) job_.origins.emplace(option.name, "default");
  }

  ResolvedJob read(Problems& problems) {
    for (const fs::path& path : {job_.config.file, working_directory_})
      if (!is_utf8(path.string()))
        fail(Exit::kConfig, "{}: expected a path in UTF-8, as a run records what its paths start at; rename it",
             path.string());
    read_file();
    for (const Override& item : source_.overrides) read_override(item);
    if (source_.device) {
      TomlNode node;
      node.type = TomlNode::Type::kText;
      node.scalar = *source_.device;
      where_ = origin_ = "LF_DEVICE";
      take_option(*find_option("device.name"), node);
    }
    if (job_.whole) check_between_options();
    tell(problems);
    fill_derived_defaults(job_, working_directory_);
    return std::move(job_);
  }

 private:
  struct Problem {
    std::string where;  // a file, or an override; the place in a file is added to it
    Place at;
    size_t order;  // files first, by place; then the others as they came
    std::string text;
  };

  std::string text_of_file() {
    const std::string name = source_.file.string();
    const int fd = open(job_.config.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
    if (fd < 0)
      fail(exit_of_unreadable(errno), "{}: cannot be read: {}; name the job file", name, std::strerror(errno));
    struct stat status {};
    std::string text;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(fd);
      fail(Exit::kInputMissing, "{}: expected a job file, got {}", name,
           S_ISDIR(status.st_mode) ? "a folder" : "something that is not a regular file");
    }
    std::vector<char> block(1 << 16);
    ssize_t n = 0;
    while (text.size() <= kMostTomlBytes && (n = ::read(fd, block.data(), block.size())) > 0)
      text.append(block.data(), static_cast<size_t>(n));
    const int reason = errno;
    close(fd);
    if (n < 0) fail(Exit::kIo, "{}: cannot be read: {}", name, std::strerror(reason));
    // Said of the file's true size: reading stopped early.
    if (text.size() > kMostTomlBytes)
      fail(Exit::kConfig, "{}: expected at most {} bytes of TOML, got {}; is this the job file?", name, kMostTomlBytes,
           status.st_size);
    return text;
  }

  void read_file() {
    where_ = source_.file.string();
    base_ = job_.config.file.parent_path();
    in_file_ = true;
    const TomlDocument document = parse_toml(text_of_file());
    for (const TomlProblem& problem : document.problems) problem_at(problem.at, problem.text);
    job_.whole = document.complete;
    if (document.complete) take_table(document.root, "");
    in_file_ = false;
    base_ = working_directory_;
  }

  void read_override(const Override& item) {
    where_ = fmt::format("{} {}", item.origin, item.text);
    origin_ = item.origin;
    if (!is_utf8(item.text)) {
      problem_at({}, "expected UTF-8; paths of other bytes cannot be recorded, rename them");
      return;
    }
    const auto [given, stated] = split_set(item.text);
    if (!stated || item.text[0] == '=') {
      problem_at({}, "expected table.key=value");
      return;
    }
    const std::string name(given), value(*stated);
    const auto [option, rest] = owner_of(name);
    if (option == nullptr) {
      problem_at({}, unknown(name));
      return;
    }
    TomlDocument document = parse_toml("value = " + value);
    const bool one_value = document.complete && document.problems.empty() && document.root.entries.size() == 1 &&
                           document.root.entries[0].key == "value";
    TomlNode node;
    if (one_value) node = std::move(document.root.entries[0].value);
    if (takes_bare_text(*option) && is_bare_text(value) && !(one_value && node.type == TomlNode::Type::kText)) {
      node.type = TomlNode::Type::kText;
      node.scalar = value;
    } else if (!one_value) {
      problem_at({}, no_value(*option, name, !rest.empty(), value));
      return;
    }
    if (rest.empty())
      take_option(*option, node);
    else
      take_table_key(*option, rest, node);
  }

  // Of what is no TOML. The parser's own words are of no help: it takes every word for a number, "no" for nan.
  static std::string no_value(const Option& option, const std::string& name, bool in_free_table,
                              const std::string& value) {
    std::string got = value.empty() ? "nothing" : value;
    for (char& c : got)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    if (!in_free_table) return fmt::format("{}: expected {}, got {}", name, expected_type(option.type), got);
    const bool one_word = !value.empty() && value.find_first_of("\"'\\[{\n") == std::string::npos;
    return fmt::format("{}: expected a number, true, false or text in quotes, got {}{}", name, got,
                       one_word ? fmt::format("; if text is meant, quote it: --set '{}=\"{}\"'", name, value) : "");
  }

  static bool takes_bare_text(const Option& option) {
    return option.type == OptionType::kText || option.type == OptionType::kPath || option.type == OptionType::kTexts ||
           option.type == OptionType::kPaths;
  }

  // What is meant as it stands where text is wanted, 2024 and it's among it. What begins as TOML's quotes, lists and
  // tables do is TOML.
  static bool is_bare_text(const std::string& value) {
    return !value.empty() && std::string_view("\"'[{").find(value[0]) == std::string_view::npos &&
           value.find('\n') == std::string::npos;
  }

  // The option that a dotted name belongs to, and what of the name lies inside it, if it is a table.
  static std::pair<const Option*, std::string_view> owner_of(std::string_view name) {
    if (const Option* option = find_option(name)) return {option, {}};
    for (const Option& option : options())
      if (option.type == OptionType::kTable && name.size() > option.name.size() + 1 && name.starts_with(option.name) &&
          name[option.name.size()] == '.')
        return {&option, name.substr(option.name.size() + 1)};
    return {nullptr, {}};
  }

  void take_table(const TomlNode& table, const std::string& prefix) {
    for (const TomlEntry& entry : table.entries) {
      const std::string name = prefix.empty() ? entry.key : prefix + "." + entry.key;
      const auto& tables = option_tables();
      if (const Option* option = find_option(name)) {
        take_option(*option, entry.value);
      } else if (std::find(tables.begin(), tables.end(), name) == tables.end()) {
        problem_at(entry.at, unknown(name));
      } else if (entry.value.type != TomlNode::Type::kTable) {
        problem_at(entry.value.at, fmt::format("{}: expected a table, got {}; write [{}] above its keys", name,
                                               shown(entry.value), name));
      } else {
        take_table(entry.value, name);
      }
    }
  }

  std::string unknown(std::string_view name) const {
    std::vector<std::string_view> known = option_tables();
    for (const Option& option : options()) known.push_back(option.name);
    std::string shown_name(name.substr(0, 80));
    for (char& c : shown_name)
      if (static_cast<unsigned char>(c) < 0x20) c = '?';
    if (problems_.size() > kMostLines) return fmt::format("{} is unknown", shown_name);  // nobody will read it
    if (const auto& tables = option_tables(); std::find(tables.begin(), tables.end(), name) != tables.end())
      return fmt::format("{} is a table, not an option; it has {}", shown_name, fmt::join(keys_of(name), ", "));
    if (const auto meant = nearest(name, known))
      return fmt::format("{} is unknown; did you mean {}?", shown_name, *meant);
    const std::string_view table = name.substr(0, std::min(name.rfind('.'), name.size()));
    const std::vector<std::string_view> keys = table == name ? std::vector<std::string_view>{} : keys_of(table);
    if (!keys.empty()) return fmt::format("{} is unknown; [{}] has {}", shown_name, table, fmt::join(keys, ", "));
    return fmt::format("{} is unknown; the tables are {}", shown_name, fmt::join(option_tables(), ", "));
  }

  static std::vector<std::string_view> keys_of(std::string_view table) {
    std::vector<std::string_view> keys;
    for (const Option& option : options())
      if (option.table() == table) keys.push_back(option.key());
    return keys;
  }

  void take_option(const Option& option, const TomlNode& node) {
    try {
      const Json value = option.type == OptionType::kTables ? checked_tables(option, node) : checked(option, node);
      option.set(job_.config, value);
      job_.origins.find(option.name)->second = origin_at(node.at);
      note_inner_origins(std::string(option.name), node);
    } catch (const std::invalid_argument& wrong) {
      job_.broken.emplace(option.name);
      problem_at(node.at, wrong.what());
    }
  }

  void note_inner_origins(const std::string& name, const TomlNode& node) {
    for (const TomlEntry& entry : node.entries) {
      const std::string inner = name + "." + entry.key;
      job_.inner_origins[inner] = origin_at(entry.value.at);
      note_inner_origins(inner, entry.value);
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string inner = fmt::format("{}[{}]", name, i);
      job_.inner_origins[inner] = origin_at(node.items[i].at);
      note_inner_origins(inner, node.items[i]);
    }
  }

  // One key of a free table: what the table has stays.
  void take_table_key(const Option& option, std::string_view key, const TomlNode& node) {
    try {
      Json whole = option.get(job_.config);
      Json* place = &whole;
      for (size_t start = 0; start <= key.size();) {
        const size_t end = std::min(key.find('.', start), key.size());
        if (!place->is_object()) *place = Json::object();
        place = &(*place)[std::string(key.substr(start, end - start))];
        start = end + 1;
      }
      *place = free_value(node, fmt::format("{}.{}", option.name, key));
      option.set(job_.config, whole);
      if (std::string& origin = job_.origins.find(option.name)->second; origin == "default")
        origin = origin_at(node.at);
      const std::string name = fmt::format("{}.{}", option.name, key);
      job_.inner_origins[name] = origin_at(node.at);
      note_inner_origins(name, node);
    } catch (const std::invalid_argument& wrong) {
      job_.broken.emplace(option.name);
      problem_at(node.at, wrong.what());
    }
  }

  Json checked(const Option& option, const TomlNode& node) {
    const auto wrong_type = [&](const TomlNode& got) {
      throw std::invalid_argument(
          fmt::format("{}: expected {}, got {}", option.name, expected_type(option.type), shown(got)));
    };
    using Type = TomlNode::Type;
    switch (option.type) {
      case OptionType::kInteger:
        if (node.type != Type::kInteger) wrong_type(node);
        break;
      case OptionType::kNumber:
        if (node.type != Type::kInteger && node.type != Type::kNumber) wrong_type(node);
        break;
      case OptionType::kBoolean:
        if (node.type != Type::kBoolean) wrong_type(node);
        break;
      case OptionType::kText:
        if (node.type != Type::kText) wrong_type(node);
        break;
      case OptionType::kPath:
        if (node.type != Type::kText) wrong_type(node);
        return path_text(option, node);
      case OptionType::kTexts:
      case OptionType::kPaths: {
        Json list = Json::array();
        const bool alone = node.type == Type::kText;  // one is a list of one
        if (!alone && node.type != Type::kArray) wrong_type(node);
        for (const TomlNode& item : alone ? std::vector<TomlNode>{node} : node.items) {
          if (item.type != Type::kText) wrong_type(item);
          if (item.scalar.get_ref<const std::string&>().empty())
            throw std::invalid_argument(fmt::format("{}: expected {}, got an empty text{}", option.name,
                                                    expected_type(option.type), alone ? "" : " in it"));
          list.push_back(option.type == OptionType::kPaths ? path_text(option, item) : item.scalar.get<std::string>());
        }
        return list;
      }
      case OptionType::kTable:
        if (node.type != Type::kTable) wrong_type(node);
        return free_value(node, std::string(option.name));
      case OptionType::kTables:  // of which there are none inside others
        wrong_type(node);
    }
    if (const std::string broken = rule_broken(option, node); !broken.empty()) throw std::invalid_argument(broken);
    return node.scalar;
  }

  // A list of tables. Each mistake in them is told where it stands; a table with one is empty in what is returned, and
  // in `broken` as "optimizer.groups[1]", beside the option.
  Json checked_tables(const Option& option, const TomlNode& node) {
    if (node.type != TomlNode::Type::kArray)
      throw std::invalid_argument(
          fmt::format("{}: expected {}, got {}", option.name, expected_type(option.type), shown(node)));
    Json list = Json::array();
    for (const TomlNode& item : node.items) {
      const size_t before = problems_.size();
      Json table = checked_table(option, item);
      if (problems_.size() > before) {
        job_.broken.emplace(option.name);
        job_.broken.emplace(fmt::format("{}[{}]", option.name, list.size()));
        table = Json::object();
      }
      list.push_back(std::move(table));
    }
    return list;
  }

  Json checked_table(const Option& option, const TomlNode& node) {
    Json table = Json::object();
    if (node.type != TomlNode::Type::kTable)
      problem_at(node.at, fmt::format("{}: expected a list of tables, got {} in it; write [[{}]] above each",
                                      option.name, shown(node), option.name));
    for (const TomlEntry& entry : node.entries) {
      std::vector<std::string_view> keys;
      for (const Option& field : option.fields) keys.push_back(field.key());
      const auto known = std::find(keys.begin(), keys.end(), entry.key);
      if (known == keys.end()) {
        const auto meant = nearest(entry.key, keys);
        problem_at(entry.at, fmt::format("{}: {} is unknown; {}", option.name, Json(entry.key.substr(0, 80)).dump(),
                                         meant ? fmt::format("did you mean {}?", *meant)
                                               : fmt::format("each of its tables has {}", fmt::join(keys, ", "))));
        continue;
      }
      try {
        table[entry.key] = checked(option.fields[static_cast<size_t>(known - keys.begin())], entry.value);
      } catch (const std::invalid_argument& wrong) {
        problem_at(entry.value.at, wrong.what());
      }
    }
    return table;
  }

  std::string path_text(const Option& option, const TomlNode& node) {
    const auto text = node.scalar.get<std::string>();
    if (text.find('\0') != std::string::npos)
      throw std::invalid_argument(fmt::format("{}: a path may not hold a NUL", option.name));
    if (text.empty()) return text;  // the same as not given
    const fs::path& base = option.name == "job.output" ? working_directory_ : base_;
    return (base / text).lexically_normal().string();
  }

  Json free_value(const TomlNode& node, const std::string& name) {
    switch (node.type) {
      case TomlNode::Type::kTable: {
        Json table = Json::object();
        for (const TomlEntry& entry : node.entries) table[entry.key] = free_value(entry.value, name + "." + entry.key);
        return table;
      }
      case TomlNode::Type::kArray: {
        Json list = Json::array();
        for (const TomlNode& item : node.items) list.push_back(free_value(item, name));
        return list;
      }
      case TomlNode::Type::kDate:
        throw std::invalid_argument(
            fmt::format("{}: expected text, a number, true or false, got a date or time", name));
      case TomlNode::Type::kNumber:
        if (!std::isfinite(node.scalar.get<double>()))
          throw std::invalid_argument(fmt::format("{}: must be finite, got {}", name, node.scalar.get<double>()));
        [[fallthrough]];
      default:
        return node.scalar;
    }
  }

  void check_between_options() {
    for (const JobProblem& problem : check_job(job_)) {
      const std::string& origin = job_.origins.find(problem.option)->second;
      const bool given = origin != "default";
      problems_.push_back({given ? origin : source_.file.string(), {}, 1, problem.text});
      job_.broken.emplace(problem.option);
    }
  }

  std::string origin_at(Place at) const {
    if (in_file_) return fmt::format("{}:{}:{}", where_, at.line, at.column);
    return origin_.empty() ? where_ : origin_;
  }

  void problem_at(Place at, std::string text) {
    problems_.push_back({where_, in_file_ ? at : Place{}, in_file_ ? 0u : 1u, std::move(text)});
  }

  void tell(Problems& problems) {
    std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
      return std::tuple(a.order, a.at.line, a.at.column) < std::tuple(b.order, b.at.line, b.at.column);
    });
    for (size_t i = 0; i < std::min(problems_.size(), kMostLines); ++i) {
      const Problem& problem = problems_[i];
      problems.add(Exit::kConfig, problem.at.line == 0 ? fmt::format("{}: {}", problem.where, problem.text)
                                                       : fmt::format("{}:{}:{}: {}", problem.where, problem.at.line,
                                                                     problem.at.column, problem.text));
    }
    if (problems_.size() > kMostLines) problems.add_untold(Exit::kConfig, problems_.size() - kMostLines);
  }

  const JobSource& source_;
  const fs::path working_directory_;
  ResolvedJob job_;
  std::vector<Problem> problems_;
  // Of the source being read: what messages call it, what relative paths start at, what --print-config calls it.
  std::string where_;
  fs::path base_;
  std::string origin_;
  bool in_file_ = false;
};

}  // namespace

ResolvedJob resolve_job(const JobSource& source, Problems& problems) {
  return Reader(source, source.working_directory.empty() ? fs::current_path() : source.working_directory)
      .read(problems);
}

ResolvedJob resolve_job(const JobSource& source) {
  Problems problems;
  ResolvedJob job = resolve_job(source, problems);
  problems.refuse_if_any();
  return job;
}

JobConfig load_job(const fs::path& file, const std::vector<std::string>& sets) {
  JobSource source{.file = file};
  for (const std::string& text : sets) source.overrides.push_back({text});
  return resolve_job(source).config;
}

}  // namespace lf
