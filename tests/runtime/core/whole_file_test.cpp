#include "core/whole_file.h"

#include <csignal>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/scratch_folder.h"

namespace lf {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(WholeFile, the_new_content_takes_the_place_of_the_old) {
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a";
  EXPECT_FALSE(replace_file(file, "old"));
  EXPECT_FALSE(replace_file(file, std::string(100'000, 'n')));
  EXPECT_EQ(content_of(file), std::string(100'000, 'n'));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.part"));
}

TEST(WholeFile, where_the_new_content_does_not_fit_the_old_one_stays_and_nothing_beside_it) {
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "a";
  ASSERT_FALSE(replace_file(file, "old"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::error_code error = replace_file(file, std::string(5000, 'n'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, std::errc::file_too_large);
  EXPECT_EQ(content_of(file), "old");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.part"));
}

TEST(WholeFile, a_folder_that_is_not_there_is_told) {
  const test::ScratchFolder folder;
  EXPECT_EQ(replace_file(folder.path() / "no/a", "x"), std::errc::no_such_file_or_directory);
}

}  // namespace
}  // namespace lf
