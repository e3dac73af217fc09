#include "launch/command_line.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace lf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refused(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kUsage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(CommandLine, a_job_file_alone_trains) {
  const CommandLine line = parse_command_line({"job.toml"});
  EXPECT_EQ(line.command, Command::kTrain);
  EXPECT_EQ(line.job_file, "job.toml");
  EXPECT_FALSE(line.plugin_dirs);
  EXPECT_FALSE(line.fresh);
}

TEST(CommandLine, options_stand_anywhere_and_repeat) {
  const CommandLine line = parse_command_line({"--set", "a.b=1", "--plugin-dir", "/p", "job.toml", "--set=c.d=[1, 2]",
                                               "-n", "4", "--fresh", "--plugin-dir=/q"});
  EXPECT_THAT(line.sets, ElementsAre("a.b=1", "c.d=[1, 2]"));
  EXPECT_THAT(*line.plugin_dirs, ElementsAre("/p", "/q"));
  EXPECT_EQ(line.processes, 4);
  EXPECT_TRUE(line.fresh);
  EXPECT_EQ(parse_command_line({"-n4", "job.toml"}).processes, 4);
  EXPECT_THAT(parse_command_line({"job.toml", "--set", "x.y=-1"}).sets, ElementsAre("x.y=-1"));
}

TEST(CommandLine, plugin_folders_become_absolute) {
  EXPECT_THAT(*parse_command_line({"--plugin-dir", "here/../p", "job.toml"}).plugin_dirs,
              ElementsAre(std::filesystem::current_path() / "p"));
}

TEST(CommandLine, commands_take_their_words) {
  EXPECT_EQ(parse_command_line({"check", "job.toml"}).command, Command::kCheck);
  EXPECT_EQ(parse_command_line({"plugins", "list"}).command, Command::kPluginsList);
  EXPECT_THAT(parse_command_line({"plugins", "verify", "a.so", "b.so"}).words, ElementsAre("a.so", "b.so"));
  const CommandLine verify = parse_command_line({"plugins", "verify", "--case", "some", "--json", "a.so"});
  EXPECT_EQ(verify.command, Command::kPluginsVerify);
  EXPECT_EQ(verify.case_folder, "some");
  EXPECT_TRUE(verify.json);
  EXPECT_EQ(parse_command_line({"plugins", "inspect", "a.so"}).command, Command::kPluginsInspect);
  EXPECT_EQ(parse_command_line({"plugins", "lock"}).command, Command::kPluginsLock);
  EXPECT_TRUE(parse_command_line({"--locked", "job.toml"}).locked);
  EXPECT_THAT(parse_command_line({"parity", "dir", "odd"}).words, ElementsAre("dir", "odd"));
  EXPECT_THAT(parse_command_line({"export", "ckpt", "out"}).words, ElementsAre("ckpt", "out"));
  EXPECT_THAT(parse_command_line({"parity", "dir", "--dtype", "bf16"}).words, ElementsAre("dir", "--dtype", "bf16"));
  EXPECT_EQ(parse_command_line({"job.toml", "--print-config"}).command, Command::kPrintConfig);
  EXPECT_EQ(parse_command_line({"--help"}).command, Command::kHelp);
  EXPECT_EQ(parse_command_line({"check", "--help"}).command, Command::kHelp);
  EXPECT_EQ(parse_command_line({"--version"}).command, Command::kVersion);
  EXPECT_TRUE(parse_command_line({"options", "--markdown"}).markdown);
}

TEST(CommandLine, a_job_file_named_like_a_command_is_written_as_a_path) {
  EXPECT_EQ(parse_command_line({"./check"}).job_file, "./check");
}

TEST(CommandLine, balance_keeps_options_it_alone_knows_in_order) {
  const CommandLine line =
      parse_command_line({"balance", "--samples", "f", "--plugin-dir", "/p", "--ranks=4", "x", "--help"});
  EXPECT_EQ(line.command, Command::kBalance);
  EXPECT_THAT(line.words, ElementsAre("--samples", "f", "--ranks=4", "x", "--help"));
  EXPECT_THAT(*line.plugin_dirs, ElementsAre("/p"));
}

TEST(CommandLine, balance_takes_settings_of_a_job_file_and_other_tools_do_not) {
  EXPECT_THAT(parse_command_line({"balance", "job.toml", "--set", "data.max_tokens=5", "--ranks=4"}).words,
              ElementsAre("job.toml", "--ranks=4", "--set", "data.max_tokens=5"));
  EXPECT_THAT(refused({"parity", "d", "--set", "data.max_tokens=5"}), HasSubstr("--set has no meaning with parity"));
}

TEST(CommandLine, an_unknown_option_is_refused_with_the_nearest) {
  EXPECT_THAT(refused({"--frehs", "job.toml"}), HasSubstr("option --frehs is unknown; did you mean --fresh?"));
  EXPECT_THAT(refused({"--plugin", "p", "job.toml"}), HasSubstr("option --plugin is unknown"));
  EXPECT_THAT(refused({"-x", "job.toml"}), HasSubstr("option -x is unknown"));
}

TEST(CommandLine, what_has_no_meaning_is_refused) {
  EXPECT_THAT(refused({"check", "job.toml", "--fresh"}), HasSubstr("--fresh has no meaning with check"));
  EXPECT_THAT(refused({"plugins", "list", "-n", "2"}), HasSubstr("-n has no meaning with plugins list"));
  EXPECT_THAT(refused({"job.toml", "--markdown"}), HasSubstr("--markdown has no meaning"));
}

TEST(CommandLine, a_wrong_number_of_words_is_refused) {
  EXPECT_THAT(refused({}), HasSubstr("expected a job file or a command, got nothing"));
  EXPECT_THAT(refused({"a.toml", "b.toml"}), HasSubstr("takes one job file, got 2 words (the last is b.toml)"));
  EXPECT_THAT(refused({"check"}), HasSubstr("check takes one job file, got nothing"));
  EXPECT_THAT(refused({"plugins"}), HasSubstr("`plugins verify FILE` or `plugins lock`, got nothing"));
  EXPECT_THAT(refused({"plugins", "eat"}), HasSubstr("got eat"));
}

TEST(CommandLine, values_are_checked) {
  for (const char* bad : {"0", "-1", "x", "2x", "99999999999", "4097"})
    EXPECT_THAT(refused({"-n", bad, "job.toml"}), HasSubstr("-n takes a number of workers in [1, 4096], got ")) << bad;
  EXPECT_THAT(refused({"job.toml", "--set"}), HasSubstr("--set"));
  EXPECT_THAT(refused({"job.toml", "--fresh=1"}), HasSubstr("--fresh"));
}

}  // namespace
}  // namespace lf
