#include <gtest/gtest.h>

#include "config/config.h"

namespace lf {
namespace {

TEST(GoOnCommand, keeps_the_words_and_names_the_directory_from_anywhere) {
  EXPECT_EQ(go_on_command({"job.toml", "--set", "job.name=a b"}, "/runs/x-2"),
            "lfrun job.toml --set 'job.name=a b' --set job.output=/runs/x-2");
}

TEST(GoOnCommand, says_job_output_once) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"job.toml", "--set", "job.output=runs/x", "-n", "2"},
        {"job.toml", "--set=job.output=runs/x", "-n", "2"},
        {"job.toml", "-n", "2", "--set", " job.output = 'runs/x'"}})
    EXPECT_EQ(go_on_command(words, "/runs/x-2"), "lfrun job.toml -n 2 --set job.output=/runs/x-2");
  EXPECT_EQ(go_on_command({"--set", "job.outputs=1"}, "/x"), "lfrun --set job.outputs=1 --set job.output=/x");
}

}  // namespace
}  // namespace lf
