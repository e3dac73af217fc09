// The options as people read them: in a terminal, and as docs/options.md.
#include <fmt/format.h>

#include "config/config.h"
#include "config/options.h"

namespace lf {
namespace {

std::string default_text(const Option& option) {
  static const JobConfig kDefaults;
  if (!option.fallback.empty()) return std::string(option.fallback);
  const Json value = option.get(kDefaults);
  if (value.empty() || value == "") return "";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string type_text(const Option& option) {
  std::string text(type_name(option.type));
  if (const std::string rule = rule_text(option); !rule.empty())
    text = option.type == OptionType::kText ? rule : fmt::format("{} {}", text, rule);
  return option.unit.empty() ? text : fmt::format("{}, {}", text, option.unit);
}

}  // namespace

std::string options_help() {
  std::string text;
  for (const std::string_view table : option_tables()) {
    bool has_head = false;
    for (const Option& option : options()) {
      if (option.table() != table) continue;
      if (!has_head) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
      has_head = true;
      const std::string fallback = default_text(option);
      text += fmt::format("  {:<19} {} ({}{})\n", option.key(), option.sentence, type_text(option),
                          fallback.empty() ? "" : "; default " + fallback);
      for (const Option& field : option.fields)
        text += fmt::format("    {:<17} {} ({}{})\n", field.key(), field.sentence, type_text(field),
                            field.fallback.empty() ? "" : fmt::format("; default {}", field.fallback));
    }
  }
  return text;
}

std::string options_page() {
  std::string text =
      "# Options of a job file\n\n"
      "Made by `lfrun options --markdown` from the one definition in `runtime/config/options.cpp`; do not edit.\n\n"
      "A job file is TOML. Every key is checked: an unknown one, a wrong type or a value out of range is refused, all "
      "of\n"
      "them in one pass, with file, line and column. `--set table.key=value` takes the same keys and TOML values, with "
      "the\n"
      "same checks, and wins over the file; text and paths may be given without quotes (`--set model.path=../qwen`, "
      "`--set\n"
      "job.name=2024`), and a shell's own quotes are not TOML's (`--set 'model.freeze=[\"vision\"]'`). `lfrun "
      "--print-config\n"
      "job.toml` prints every value with where it came from.\n\n"
      "Relative `model.*`, `lora.*` and `data.*` paths of the file start at the folder of the job file; those given by "
      "`--set`, "
      "and\n"
      "`job.output` in either place, start at the current directory.\n";
  for (const std::string_view table : option_tables()) {
    bool has_head = false;
    for (const Option& option : options()) {
      if (option.table() != table) continue;
      if (!has_head) text += fmt::format("\n## [{}]\n\n| key | type | default | |\n| --- | --- | --- | --- |\n", table);
      has_head = true;
      const std::string fallback = default_text(option);
      const std::string shown = fallback.empty() ? "" : option.fallback.empty() ? "`" + fallback + "`" : fallback;
      text += fmt::format("| `{}` | {} | {} | {} |\n", option.key(), type_text(option), shown, option.sentence);
      for (const Option& field : option.fields)
        text += fmt::format("| `{}[].{}` | {} | {} | {} |\n", option.key(), field.key(), type_text(field),
                            field.fallback, field.sentence);
    }
  }
  return text;
}

}  // namespace lf
