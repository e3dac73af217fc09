// A save that dies, fails or loses power at any single operation leaves a checkpoint that loads, at most one interval
// old.
#include <atomic>
#include <cerrno>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "runtime/checkpoint/fault_file_system.h"
#include "runtime/checkpoint/states.h"

namespace lf {
namespace {

using test::entries;
using test::expect_equal;
using test::save;
using test::State;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Outcome = SaveReport::Outcome;

// How many operations a save takes over an existing checkpoint that it then deletes.
int operations_of_a_save() {
  test::MemoryScratch scratch;
  PosixFileSystem real;
  save(real, scratch / "ckpt", State(10), 1);
  const auto count = std::make_shared<int>(0);
  test::WatchedFileSystem counting(test::at_operation(-1, false, {}, count));
  save(counting, scratch / "ckpt", State(20), 1);
  return *count;
}

int64_t resumed_step(const std::filesystem::path& directory) {
  ResumePoint point = find_resume_point(directory, Verify::kHashes);
  if (!point.checkpoint) return 0;
  const int64_t step = point.checkpoint->state().step;
  expect_equal(*point.checkpoint, State(step));
  return step;
}

TEST(CheckpointFaults, a_process_killed_at_any_operation_leaves_the_old_or_the_new_checkpoint) {
  const int operations = operations_of_a_save();
  ASSERT_GT(operations, 30);
  int old_ones = 0, new_ones = 0;
  for (int k = 1; k <= operations; ++k) {
    test::MemoryScratch scratch;
    PosixFileSystem real;
    ASSERT_EQ(save(real, scratch / "ckpt", State(10), 1).outcome, Outcome::kSaved);
    const pid_t child = fork();
    if (child == 0) {
      test::WatchedFileSystem dying(
          test::at_operation(k, false, [](const char*, const std::filesystem::path&) { raise(SIGKILL); }));
      save(dying, scratch / "ckpt", State(20), 1);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << k;
    const int64_t step = resumed_step(scratch / "ckpt");
    ASSERT_TRUE(step == 10 || step == 20) << "killed at operation " << k << ": resumed at " << step;
    ++(step == 10 ? old_ones : new_ones);
    // And the next run goes on from there, with nothing left over.
    ASSERT_EQ(save(real, scratch / "ckpt", State(30), 1).outcome, Outcome::kSaved) << k;
    ASSERT_EQ(resumed_step(scratch / "ckpt"), 30) << k;
    EXPECT_EQ(entries(scratch / "ckpt"), (std::vector<std::string>{"latest", "step-00000030"})) << k;
  }
  EXPECT_GT(old_ones, 10);
  EXPECT_GT(new_ones, 5);
}

TEST(CheckpointFaults, a_first_save_killed_at_any_operation_is_told_and_the_run_starts_over) {
  const int operations = operations_of_a_save();
  for (int k = 1; k <= operations; k += 3) {
    test::MemoryScratch scratch;
    const pid_t child = fork();
    if (child == 0) {
      test::WatchedFileSystem dying(
          test::at_operation(k, false, [](const char*, const std::filesystem::path&) { raise(SIGKILL); }));
      save(dying, scratch / "ckpt", State(20));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const ResumePoint point = find_resume_point(scratch / "ckpt", Verify::kHashes);
    if (point.checkpoint) {
      expect_equal(*point.checkpoint, State(20));
    } else if (std::filesystem::exists(scratch / "ckpt/.tmp-step-00000020")) {
      ASSERT_EQ(point.skipped.size(), 1u);
      EXPECT_THAT(point.skipped[0], AllOf(HasSubstr(".tmp-step-00000020"), HasSubstr("cut off")));
    }
  }
}

TEST(CheckpointFaults, power_lost_at_any_operation_leaves_the_old_or_the_new_checkpoint) {
  const int operations = operations_of_a_save();
  for (const bool entries_too : {false, true}) {
    for (int k = 0; k <= operations + 1; ++k) {
      test::MemoryScratch scratch;
      PosixFileSystem real;
      ASSERT_EQ(save(real, scratch / "ckpt", State(10), 1).outcome, Outcome::kSaved);
      test::PowerlessFileSystem disk(k, scratch / "graveyard");
      const SaveReport report = save(disk, scratch / "ckpt", State(20), 1);
      disk.lose(scratch / "ckpt", entries_too);
      const int64_t step = resumed_step(scratch / "ckpt");
      if (report.outcome == Outcome::kSaved) {
        ASSERT_EQ(step, 20) << "reported as saved, lost by a power cut after operation " << k;
      } else {
        ASSERT_TRUE(step == 10 || step == 20) << k;
      }
      ASSERT_EQ(disk.failed(), k < operations) << k;
    }
  }
}

TEST(CheckpointFaults, power_lost_while_a_checkpoint_of_the_same_step_is_replaced_leaves_one_of_the_two) {
  const int operations = operations_of_a_save();
  for (int k = 0; k <= operations + 8; ++k) {
    test::MemoryScratch scratch;
    PosixFileSystem real;
    ASSERT_EQ(save(real, scratch / "ckpt", State(20), 1).outcome, Outcome::kSaved);
    test::PowerlessFileSystem disk(k, scratch / "graveyard");
    save(disk, scratch / "ckpt", State(20), 1);
    disk.lose(scratch / "ckpt", true);
    ASSERT_EQ(resumed_step(scratch / "ckpt"), 20) << k;
  }
}

TEST(CheckpointFaults, an_error_at_any_operation_is_reported_keeps_the_old_one_and_the_next_save_succeeds) {
  const int operations = operations_of_a_save();
  for (const int code : {ENOSPC, EIO, EROFS}) {
    for (const bool for_ever : {false, true}) {
      for (int k = 1; k <= operations; ++k) {
        test::MemoryScratch scratch;
        PosixFileSystem real;
        ASSERT_EQ(save(real, scratch / "ckpt", State(10), 1).outcome, Outcome::kSaved);
        test::WatchedFileSystem failing(test::at_operation(
            k, for_ever,
            [&](const char* operation, const std::filesystem::path& path) { throw FileError(code, operation, path); }));
        const SaveReport report = save(failing, scratch / "ckpt", State(20), 1);
        EXPECT_FALSE(report.reason.empty()) << k;
        if (report.outcome == Outcome::kSaved) {
          ASSERT_EQ(resumed_step(scratch / "ckpt"), 20) << k;
        } else {
          EXPECT_EQ(report.outcome, code == ENOSPC ? Outcome::kNoSpace : Outcome::kFailed) << k;
          const int64_t step = resumed_step(scratch / "ckpt");
          ASSERT_TRUE(step == 10 || step == 20) << k;
        }
        ASSERT_EQ(save(real, scratch / "ckpt", State(30), 1).outcome, Outcome::kSaved) << k;
        ASSERT_EQ(resumed_step(scratch / "ckpt"), 30) << k;
        EXPECT_EQ(entries(scratch / "ckpt"), (std::vector<std::string>{"latest", "step-00000030"})) << k;
      }
    }
  }
}

TEST(CheckpointFaults, too_little_space_is_known_before_anything_is_written) {
  test::MemoryScratch scratch;
  PosixFileSystem real;
  save(real, scratch / "ckpt", State(10));
  std::atomic<int> creates{0};
  test::WatchedFileSystem small([&](const char* operation, const std::filesystem::path&) {
    if (std::string(operation) == "create") ++creates;
  });
  small.set_available(1000);
  const SaveReport report = save(small, scratch / "ckpt", State(20));
  EXPECT_EQ(report.outcome, Outcome::kNoSpace);
  EXPECT_THAT(report.reason, AllOf(HasSubstr("1,000 are free"), HasSubstr("free some space")));
  EXPECT_EQ(creates, 0);
  EXPECT_EQ(resumed_step(scratch / "ckpt"), 10);
}

TEST(CheckpointFaults, a_full_disk_stops_training_only_when_the_job_says_so) {
  test::MemoryScratch scratch;
  test::WatchedFileSystem small([](const char*, const std::filesystem::path&) {});
  small.set_available(1000);
  LocalExchange alone;
  const State state(20);
  CheckpointOptions options = test::options_for(scratch / "ckpt");
  {
    CheckpointWriter writer(small, alone, options);
    writer.save(state.trainer, state.whole_tensors());
    EXPECT_TRUE(writer.save(state.trainer, state.whole_tensors()));  // goes on
    EXPECT_EQ(writer.wait()->outcome, Outcome::kNoSpace);
  }
  options.stop_when_full = true;
  {
    CheckpointWriter writer(small, alone, options);
    writer.save(state.trainer, state.whole_tensors());
    EXPECT_THAT(test::refusal([&] { writer.wait(); }),
                AllOf(HasSubstr("73 "), HasSubstr("on_full"), HasSubstr("1,000 are free")));
  }
  {
    CheckpointWriter writer(small, alone, options);
    writer.save(state.trainer, state.whole_tensors());
    EXPECT_THAT(test::refusal([&] { writer.save(state.trainer, state.whole_tensors()); }), HasSubstr("73 "));
  }
}

}  // namespace
}  // namespace lf
