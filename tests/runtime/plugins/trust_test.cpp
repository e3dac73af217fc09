#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/plugins/plugin_folder.h"

namespace lf::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Trust = PluginFolder;

TEST_F(Trust, a_good_file_in_a_good_folder_is_taken) { EXPECT_EQ(refusal(write(good_bytes())), ""); }

TEST_F(Trust, a_file_that_others_may_write_is_refused) {
  const auto path = write(good_bytes());
  chmod(path.c_str(), 0664);
  EXPECT_EQ(refusal(path), "expected a file that only its owner may write, got mode 664; chmod go-w it");
  chmod(path.c_str(), 0646);
  EXPECT_THAT(refusal(path), HasSubstr("got mode 646"));
}

TEST_F(Trust, a_folder_that_others_may_write_is_refused_with_its_name_and_the_remedy) {
  const auto path = write(good_bytes());
  chmod(folder_.c_str(), 0777);
  EXPECT_EQ(refusal(path), "expected folders that only their owner may write, got " + folder_.string() +
                               " with mode 777; chmod go-w " + folder_.string());
  chmod(folder_.c_str(), 01777);
  const bool root = geteuid() == 0;
  EXPECT_EQ(refusal(path).empty(), root) << "sticky: allowed for a folder of root's alone";
  chmod(folder_.c_str(), 0755);
}

TEST_F(Trust, a_folder_that_others_may_write_is_told_once_and_not_by_each_plugin_in_it) {
  write(good_bytes(), "one.lfplugin.so");
  write(good_bytes("good_01"), "two.lfplugin.so");
  chmod(folder_.c_str(), 0777);
  try {
    list_plugins({folder_}, host());
    ADD_FAILURE() << "was listed";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kConfig);
    EXPECT_EQ(error.what(), folder_.string() +
                                ": no plugin there is loaded: expected folders that only their owner may write, got " +
                                folder_.string() + " with mode 777; chmod go-w " + folder_.string());
  }
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(list_plugins({folder_}, host()).size(), 2U);
}

TEST_F(Trust, a_folder_further_up_that_others_may_write_is_refused) {
  const auto path = write(good_bytes(), "open/inner/some.lfplugin.so");
  chmod((folder_ / "open").c_str(), 0775);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr((folder_ / "open").string() + " with mode 775"), HasSubstr("chmod go-w")));
}

TEST_F(Trust, a_file_or_folder_of_another_user_is_refused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const auto path = write(good_bytes(), "theirs/some.lfplugin.so");
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(path), "expected a file of root or of user 0, got one of user 12345; chown it");
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("expected folders of root or of user 0"), HasSubstr("of user 12345")));
}

TEST_F(Trust, what_is_not_a_regular_file_is_refused_without_waiting_for_it) {
  const auto fifo = folder_ / "fifo.lfplugin.so";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(refusal(fifo), "expected a regular file, got a FIFO");
  std::filesystem::create_directory(folder_ / "dir.lfplugin.so");
  EXPECT_EQ(refusal(folder_ / "dir.lfplugin.so"), "expected a regular file, got a folder");
  std::filesystem::create_symlink(write(good_bytes()), folder_ / "link.lfplugin.so");
  EXPECT_EQ(refusal(folder_ / "link.lfplugin.so"), "expected a regular file, got a symbolic link");
  std::filesystem::create_symlink("loop.lfplugin.so", folder_ / "loop.lfplugin.so");
  EXPECT_EQ(refusal(folder_ / "loop.lfplugin.so"), "expected a regular file, got a symbolic link");
  EXPECT_EQ(refusal("/dev/null"), "expected a regular file, got a device");
}

TEST_F(Trust, an_absent_file_is_refused_with_the_systems_reason) {
  EXPECT_EQ(refusal(folder_ / "absent.lfplugin.so"), "cannot be opened: No such file or directory");
  EXPECT_THAT(refusal(folder_ / "no_folder" / "absent.lfplugin.so"), StartsWith("cannot be opened: No such file"));
}

TEST_F(Trust, a_link_to_the_folder_is_followed_and_the_folders_own_place_is_judged) {
  write(good_bytes(), "real/some.lfplugin.so");
  std::filesystem::create_directory_symlink(folder_ / "real", folder_ / "alias");
  const Candidate candidate = judge_plugin(folder_ / "alias" / "some.lfplugin.so", host());
  EXPECT_EQ(candidate.refusal, std::nullopt);
  EXPECT_EQ(candidate.path, folder_ / "real" / "some.lfplugin.so");
}

}  // namespace
}  // namespace lf::test
