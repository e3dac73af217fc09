#include "launch/command_line.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <boost/program_options.hpp>

#include "config/nearest.h"
#include "config/set_text.h"
#include "core/amount.h"
#include "core/error.h"

namespace lf {
namespace {

namespace po = boost::program_options;

constexpr int kMostProcesses = 4096;

po::options_description known_options() {
  po::options_description options;
  options.add_options()                                                   //
      ("plugin-dir", po::value<std::vector<std::string>>()->composing())  //
      ("set", po::value<std::vector<std::string>>()->composing())         //
      ("processes,n", po::value<std::string>())                           //
      ("fresh", po::bool_switch())                                        //
      ("print-config", po::bool_switch())                                 //
      ("markdown", po::bool_switch())                                     //
      ("locked", po::bool_switch())                                       //
      ("case", po::value<std::string>())                                  //
      ("only", po::value<std::string>())                                  //
      ("all", po::bool_switch())                                          //
      ("json", po::bool_switch())                                         //
      ("help,h", po::bool_switch())                                       //
      ("version", po::bool_switch())                                      //
      ("word", po::value<std::vector<std::string>>()->composing());       // what is no option
  return options;
}

[[noreturn]] void misuse(const std::string& what) {
  fail(Exit::kUsage, "lfrun: {}; `lfrun --help` shows the usage", what);
}

// Checks that a command got what it takes.
class Taken {
 public:
  Taken(const po::variables_map& values, std::string command) : values_(values), command_(std::move(command)) {}

  void only(std::initializer_list<std::string_view> allowed) const {
    for (const char* option :
         {"set", "processes", "fresh", "print-config", "markdown", "case", "only", "all", "json"}) {
      const auto& value = values_[option];
      if (value.empty() || value.defaulted()) continue;
      if (std::find(allowed.begin(), allowed.end(), option) == allowed.end())
        misuse(std::string(option == std::string_view("processes") ? "-n" : std::string("--") + option) +
               " has no meaning with " + command_);
    }
  }

  void count(const std::vector<std::string>& words, size_t least, size_t most, const char* expected) const {
    if (words.size() >= least && words.size() <= most) return;
    misuse(fmt::format(
        "{} takes {}, got {}", command_, expected,
        words.empty() ? "nothing" : fmt::format("{} (the last is {})", counted(words.size(), "word"), words.back())));
  }

 private:
  const po::variables_map& values_;
  std::string command_;
};

int processes_of(const std::string& text) {
  try {
    size_t end = 0;
    const int n = std::stoi(text, &end);
    if (end == text.size() && n >= 1 && n <= kMostProcesses) return n;
  } catch (const std::logic_error&) {  // not a number, or none that fits
  }
  misuse(fmt::format("-n takes a number of workers in [1, {}], got {}", kMostProcesses, text));
}

// -n and a launch.processes that says another number contradict each other.
void require_one_number_of_workers(const CommandLine& line) {
  if (!line.processes) return;
  for (const std::string& set : line.sets) {
    const auto [name, value] = split_set(set);
    if (name != "launch.processes") continue;
    if (value.value_or("") != std::to_string(*line.processes))
      misuse(fmt::format("-n {} contradicts --set launch.processes={}; leave one of them out", *line.processes,
                         value.value_or("")));
  }
}

void require_no_empty_words(const std::vector<std::string>& words, std::string_view command,
                            std::string_view expected) {
  for (const std::string& word : words)
    if (word.empty())
      misuse(fmt::format("{} takes {}, got an empty text; is a variable of the shell not set?", command, expected));
}

// An option that nobody knows is a mistake, except where another program of ours reads the rest.
void require_known(const po::parsed_options& parsed) {
  for (const po::option& option : parsed.options) {
    if (!option.unregistered) continue;
    const std::string given = option.original_tokens.empty() ? option.string_key : option.original_tokens[0];
    std::string name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
    name = name.substr(0, name.find('='));
    const auto meant = nearest(name, {"plugin-dir", "set", "fresh", "print-config", "help", "version", "markdown",
                                      "locked", "case", "only", "all", "json"});
    misuse(fmt::format("option {} is unknown{}", given, meant ? fmt::format("; did you mean --{}?", *meant) : ""));
  }
}

// A word that is no file, but nearly a command, is not taken for a job file.
void require_no_command(const std::string& word) {
  std::error_code ignored;
  if (word.find_first_of("./") != std::string::npos || std::filesystem::exists(word, ignored)) return;
  const auto meant = nearest(word, {"check", "plugins", "options", "balance", "parity", "export"});
  if (meant) misuse(fmt::format("{} is neither a job file nor a command; did you mean {}?", word, *meant));
  for (const char* command : {"help", "version"})
    if (word == command) misuse(fmt::format("{} is neither a job file nor a command; did you mean --{}?", word, word));
}

std::optional<Command> command_with_own_options(const std::string& word) {
  if (word == "balance") return Command::kBalance;
  if (word == "parity") return Command::kParity;
  if (word == "export") return Command::kExport;
  return std::nullopt;
}

std::optional<Command> plugins_command(const std::string& verb) {
  if (verb == "list") return Command::kPluginsList;
  if (verb == "inspect") return Command::kPluginsInspect;
  if (verb == "verify") return Command::kPluginsVerify;
  if (verb == "lock") return Command::kPluginsLock;
  return std::nullopt;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  const po::options_description known = known_options();
  po::positional_options_description words;
  words.add("word", -1);
  po::variables_map values;
  po::parsed_options parsed(&known);
  try {
    constexpr auto kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    parsed =
        po::command_line_parser(arguments).options(known).positional(words).style(kStyle).allow_unregistered().run();
    po::store(parsed, values);
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.get_option_name() == "--processes" && error.kind() == po::invalid_command_line_syntax::missing_parameter)
      misuse(fmt::format("-n takes a number of workers in [1, {}], got nothing", kMostProcesses));
    misuse(error.what());
  } catch (const po::error& error) {
    misuse(error.what());
  }

  CommandLine line;
  if (values.count("word") != 0) line.words = values["word"].as<std::vector<std::string>>();
  if (values.count("set") != 0) line.sets = values["set"].as<std::vector<std::string>>();
  if (values.count("plugin-dir") != 0) {
    line.plugin_dirs.emplace();
    const auto dirs = values["plugin-dir"].as<std::vector<std::string>>();
    require_no_empty_words(dirs, "--plugin-dir", "a folder of plugins");
    for (const std::string& dir : dirs) line.plugin_dirs->push_back(std::filesystem::absolute(dir).lexically_normal());
  }
  line.fresh = values["fresh"].as<bool>();
  line.markdown = values["markdown"].as<bool>();
  line.locked = values["locked"].as<bool>();
  const std::string first = line.words.empty() ? "" : line.words[0];

  if (const std::optional<Command> own = command_with_own_options(first)) {  // theirs to read, and to refuse
    line.command = *own;
    const Taken taken(values, first);
    *own == Command::kBalance ? taken.only({"json", "set"}) : taken.only({"json"});
    line.words = po::collect_unrecognized(parsed.options, po::include_positional);
    line.words.erase(std::find(line.words.begin(), line.words.end(), first));
    for (const char* shared : {"help", "json"})
      if (values[shared].as<bool>()) line.words.push_back(std::string("--") + shared);
    for (const std::string& set : line.sets) line.words.insert(line.words.end(), {"--set", set});
    return line;
  }
  require_known(parsed);
  if (values["help"].as<bool>()) return line;
  if (values["version"].as<bool>()) {
    line.command = Command::kVersion;
    return line;
  }
  if (line.words.empty()) misuse("expected a job file or a command, got nothing");
  if (values.count("processes") != 0) line.processes = processes_of(values["processes"].as<std::string>());

  const auto take_first = [&] { line.words.erase(line.words.begin()); };
  if (first == "check") {
    take_first();
    const Taken taken(values, first);
    taken.only({"set", "processes"});
    taken.count(line.words, 1, 1, "one job file");
    require_no_empty_words(line.words, first, "one job file");
    require_one_number_of_workers(line);
    line.command = Command::kCheck;
    line.job_file = line.words[0];
  } else if (first == "plugins") {
    take_first();
    const std::string verb = line.words.empty() ? "" : line.words[0];
    const std::optional<Command> command = plugins_command(verb);
    if (!command)
      misuse("expected `plugins list`, `plugins inspect FILE`, `plugins verify FILE` or `plugins lock`, got " +
             (verb.empty() ? "nothing" : verb));
    take_first();
    line.command = *command;
    const Taken taken(values, "plugins " + verb);
    if (*command == Command::kPluginsVerify)
      taken.only({"case", "only", "all", "json"});
    else
      taken.only({});
    if (*command == Command::kPluginsList || *command == Command::kPluginsLock)
      taken.count(line.words, 0, 0, "no further word");
    else
      taken.count(line.words, 1, 1000, "files");
    require_no_empty_words(line.words, "plugins " + verb, "files");
    if (values.count("case") != 0) line.case_folder = values["case"].as<std::string>();
    if (values.count("only") != 0) line.only = values["only"].as<std::string>();
    line.all = values["all"].as<bool>();
    line.json = values["json"].as<bool>();
  } else if (first == "options") {
    take_first();
    const Taken taken(values, first);
    taken.only({"markdown"});
    taken.count(line.words, 0, 0, "no further word");
    line.command = Command::kOptions;
  } else {
    require_no_command(first);
    const bool print = values["print-config"].as<bool>();
    const Taken taken(values, "training");
    taken.only({"set", "processes", "fresh", "print-config"});
    taken.count(line.words, 1, 1, "one job file");
    require_no_empty_words(line.words, "training", "one job file");
    require_one_number_of_workers(line);
    line.command = print ? Command::kPrintConfig : Command::kTrain;
    line.job_file = first;
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(line.others_than_fresh),
                 [](const std::string& word) { return word != "--fresh"; });
  }
  return line;
}

}  // namespace lf
