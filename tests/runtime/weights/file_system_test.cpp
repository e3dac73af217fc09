#include "weights/file_system.h"

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/weights/scratch.h"

namespace {

// How often the next calls of this thread end by a signal.
thread_local int interrupted_fallocates = 0, interrupted_fsyncs = 0;

bool is_interrupted(int& times) {
  if (times == 0) return false;
  --times;
  errno = EINTR;
  return true;
}

}  // namespace

// In the place of libc's, for all of this program.
extern "C" int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  if (is_interrupted(interrupted_fallocates)) return -1;
  return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, size));
}
extern "C" int fsync(int descriptor) {
  if (is_interrupted(interrupted_fsyncs)) return -1;
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace lf {
namespace {

using test::refusal;
using test::slurp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FileSystem, a_folder_takes_the_place_of_another_in_one_step) {
  test::Scratch scratch;
  PosixFileSystem files;
  test::spit(scratch / "new/a", "fresh");
  replace_tree(files, scratch / "new", scratch / "target");
  EXPECT_EQ(slurp(scratch / "target/a"), "fresh");
  test::spit(scratch / "new/b", "fresher");
  replace_tree(files, scratch / "new", scratch / "target");
  EXPECT_EQ(test::contents(scratch.path()), (std::map<std::string, std::string>{{"target/b", "fresher"}}));
}

// Without renameat2's exchange, as on NFS.
class NoExchange final : public FileSystem {
 public:
  std::unique_ptr<OutputFile> create(const std::filesystem::path& path, uint64_t size) override {
    return real_.create(path, size);
  }
  std::unique_ptr<OutputFile> open(const std::filesystem::path& path) override { return real_.open(path); }
  void make_directory(const std::filesystem::path& path) override { real_.make_directory(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override { real_.rename(from, to); }
  bool exchange(const std::filesystem::path&, const std::filesystem::path&) override { return false; }
  void remove(const std::filesystem::path& path) override { real_.remove(path); }
  void sync_directory(const std::filesystem::path& path) override { real_.sync_directory(path); }
  uint64_t available_bytes(const std::filesystem::path& path) override { return real_.available_bytes(path); }

 private:
  PosixFileSystem real_;
};

TEST(FileSystem, where_folders_cannot_be_exchanged_the_old_one_steps_aside) {
  test::Scratch scratch;
  NoExchange files;
  test::spit(scratch / "target/a", "old");
  test::spit(scratch / "target.old/left", "by a killed run");
  test::spit(scratch / "new/a", "fresh");
  replace_tree(files, scratch / "new", scratch / "target");
  EXPECT_EQ(test::contents(scratch.path()), (std::map<std::string, std::string>{{"target/a", "fresh"}}));
}

TEST(FileSystem, removing_a_tree_does_not_follow_links) {
  test::Scratch scratch;
  PosixFileSystem files;
  test::spit(scratch / "precious/a", "kept");
  test::spit(scratch / "tree/sub/b", "gone");
  std::filesystem::create_directory_symlink(scratch / "precious", scratch / "tree/link");
  remove_tree(files, scratch / "tree");
  remove_tree(files, scratch / "tree");  // not there: nothing
  EXPECT_EQ(test::contents(scratch.path()), (std::map<std::string, std::string>{{"precious/a", "kept"}}));
}

TEST(FileSystem, errors_name_the_path_the_operation_and_the_next_move) {
  test::Scratch scratch;
  PosixFileSystem files;
  test::spit(scratch / "there", "x");
  EXPECT_THAT(refusal([&] { files.create(scratch / "there", 1); }),
              StartsWith("73 " + (scratch / "there").string() + ": create failed"));
  EXPECT_THAT(refusal([&] { files.create(scratch / "no/such/folder", 1); }), StartsWith("66 "));
  EXPECT_THAT(refusal([&] { read_text_file(scratch / "there", 0); }), HasSubstr("at most 0 bytes"));
  try {
    throw FileError(ENOSPC, "write", "/disk/f");
  } catch (const FileError& error) {
    EXPECT_TRUE(error.no_space());
    EXPECT_THAT(error.what(), HasSubstr("free some space"));
  }
}

TEST(FileSystem, a_file_larger_than_the_limit_fails_when_it_is_reserved_and_not_later) {
  test::Scratch scratch;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    PosixFileSystem files;
    try {
      files.create(scratch / "big", 8 << 20);
    } catch (const FileError& error) {
      _exit(error.code() == EFBIG ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FileSystem, a_signal_that_ends_a_call_early_is_no_failure_of_the_disk) {
  test::Scratch scratch;
  PosixFileSystem files;
  interrupted_fallocates = 3;
  interrupted_fsyncs = 2;
  write_file(files, scratch / "a", "all of it");
  EXPECT_EQ(interrupted_fallocates, 0);
  EXPECT_EQ(interrupted_fsyncs, 0);
  EXPECT_EQ(slurp(scratch / "a"), "all of it");
  interrupted_fsyncs = 1;
  files.sync_directory(scratch.path());
  EXPECT_EQ(interrupted_fsyncs, 0);
}

TEST(FileSystem, available_bytes_are_known_for_paths_that_do_not_exist_yet) {
  test::Scratch scratch;
  PosixFileSystem files;
  EXPECT_GT(files.available_bytes(scratch / "a/b/c"), 0u);
}

}  // namespace
}  // namespace lf
