#include "launch/run_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/weights/scratch.h"

namespace lf {
namespace {

using test::refusal;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(RunLock, a_second_run_on_one_directory_is_refused_and_the_first_ones_process_named) {
  test::Scratch scratch;
  const RunLock first(scratch / "run");
  EXPECT_THAT(refusal([&] { RunLock second(scratch / "run"); }),
              AllOf(StartsWith("73 "), HasSubstr("process " + std::to_string(getpid())), HasSubstr("[job] output")));
  const RunLock elsewhere(scratch / "other");
}

TEST(RunLock, is_free_again_when_its_holder_ends_however_it_ends) {
  test::Scratch scratch;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock held(scratch / "run");
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal([&] { RunLock second(scratch / "run"); }), HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(refusal([&] { RunLock second(scratch / "run"); }), "nothing");
  EXPECT_EQ(refusal([&] { RunLock third(scratch / "run"); }), "nothing");
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace lf
