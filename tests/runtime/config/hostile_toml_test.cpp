// Whatever a job file holds, the answer is an error that names the file, quickly and without a crash.
#include <ctime>

#include <gmock/gmock.h>

#include "runtime/config/job_file.h"

namespace lf::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string repeated(const std::string& piece, size_t times) {
  std::string text;
  text.reserve(piece.size() * times);
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

class HostileToml : public JobFile {
 protected:
  // The message, after checking what holds for every bad file.
  std::string refused(const std::string& text) {
    const std::clock_t start = std::clock();  // of this process: a busy machine is not a slow parser
    const auto [exit, said] = refusal(text);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(exit, Exit::kConfig);
    EXPECT_THAT(said, StartsWith("job.toml"));
    EXPECT_LT(said.size(), 40'000u);
    EXPECT_LT(seconds, 5.0);
    return said;
  }
};

TEST_F(HostileToml, deep_lists_and_tables_are_refused) {
  EXPECT_THAT(refused("a = " + repeated("[", 100'000)), HasSubstr("exceeded maximum nested value depth"));
  EXPECT_THAT(refused("a = " + repeated("{a=", 100'000)), HasSubstr("exceeded maximum nested value depth"));
}

TEST_F(HostileToml, a_key_of_a_great_many_parts_is_refused_with_its_place) {
  EXPECT_THAT(refused("\n" + repeated("a.", 300'000) + "a = 1"),
              StartsWith("job.toml:2:32: expected a key of at most 16 parts"));
  EXPECT_THAT(refused("[" + repeated("a.", 300'000) + "a]"), HasSubstr("at most 16 parts"));
  EXPECT_THAT(refused("[[" + repeated("\"a\" . ", 100'000) + "a]]"), HasSubstr("at most 16 parts"));
  EXPECT_THAT(refused("x = {" + repeated("a.", 300'000) + "a = 1}"), HasSubstr("at most 16 parts"));
  EXPECT_THAT(refused(repeated("'=#'.", 100'000) + "a = 1"), HasSubstr("at most 16 parts"));
}

TEST_F(HostileToml, a_file_that_is_too_large_is_refused_unparsed) {
  EXPECT_THAT(refused(repeated("# a comment\n", 9'000'000)),
              HasSubstr("expected at most 1048576 bytes of TOML, got 108000000"));
}

TEST_F(HostileToml, many_mistakes_are_cut_short) {
  EXPECT_THAT(refused(repeated("", 0) +
                      [] {
                        std::string text;
                        for (int i = 0; i < 20'000; ++i) text += "key" + std::to_string(i) + " = 1\n";
                        return text;
                      }()),
              HasSubstr("and 19904 more"));
}

TEST_F(HostileToml, bytes_that_are_no_utf8_are_refused_with_their_place) {
  EXPECT_THAT(refused("[job]\nname = \"a\xFF\"\n"), StartsWith("job.toml:2:"));
  EXPECT_THAT(refused(std::string("[job]\nname = \"a\0b\"\n", 19)), StartsWith("job.toml:2:"));
}

TEST_F(HostileToml, a_date_where_a_number_belongs_is_a_wrong_type) {
  EXPECT_THAT(refused("[job]\nsteps = 2024-05-01\n"),
              HasSubstr("job.toml:2:9: job.steps: expected an integer, got a date or time"));
  EXPECT_THAT(refused("[model.options]\nwhen = 07:32:00\n"),
              HasSubstr("model.options.when: expected text, a number, true or false, got a date or time"));
}

TEST_F(HostileToml, integers_beyond_64_bits_are_refused) {
  EXPECT_THAT(refused("[job]\nseed = 9223372036854775808\n"), StartsWith("job.toml:2:"));
  EXPECT_THAT(refused("[job]\nseed = -1\n"), HasSubstr("job.seed must be at least 0, got -1"));
}

TEST_F(HostileToml, tables_where_values_belong_and_values_where_tables_belong_are_refused) {
  EXPECT_THAT(refused("job = 3\n"),
              HasSubstr("job.toml:1:7: job: expected a table, got integer 3; write [job] above its keys"));
  EXPECT_THAT(refused("[[job]]\nsteps = 1\n"), HasSubstr("job: expected a table, got a list"));
  EXPECT_THAT(refused("[job.steps]\nx = 1\n"), HasSubstr("job.steps: expected an integer, got a table"));
  EXPECT_THAT(refused("[model]\noptions = 3\n"), HasSubstr("model.options: expected a table, got integer 3"));
}

TEST_F(HostileToml, a_path_with_a_nul_and_a_name_that_is_a_path_are_refused) {
  EXPECT_THAT(refused("[data]\npath = \"a\\u0000b\"\n"), HasSubstr("data.path: a path may not hold a NUL"));
  EXPECT_THAT(refused("[job]\nname = \"../escape\"\n"), HasSubstr("job.name must be a folder name"));
}

TEST_F(HostileToml, any_prefix_of_a_good_file_is_read_or_refused) {
  const std::string whole = kMinimal + "[model.options]\nx = {a = [1, 2, \"three\"], b = '''x\ny'''}\n";
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto [exit, said] = refusal(whole.substr(0, n));
    EXPECT_TRUE(exit == Exit::kDone || exit == Exit::kConfig) << n << ": " << said;
  }
}

}  // namespace
}  // namespace lf::test
