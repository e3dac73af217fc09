#include "launch/threads.h"

#include <thread>

#include <gmock/gmock.h>

#include "core/error.h"

namespace lf {
namespace {

TEST(Threads, the_job_wins_then_the_environment_then_the_cores_are_divided) {
  EXPECT_EQ(threads_of_worker(3, 4, {{"OMP_NUM_THREADS", "7"}}, 16), 3);
  EXPECT_EQ(threads_of_worker(0, 4, {{"OMP_NUM_THREADS", "7"}}, 16), 7);
  EXPECT_EQ(threads_of_worker(0, 4, {}, 16), 4);
  EXPECT_EQ(threads_of_worker(0, 3, {}, 16), 5);
  EXPECT_EQ(threads_of_worker(0, 8, {}, 2), 1);
}

TEST(Threads, an_environment_that_is_no_number_is_refused) {
  for (const char* bad : {"0", "many", "4,2", "-1"}) {
    try {
      threads_of_worker(0, 1, {{"OMP_NUM_THREADS", bad}}, 4);
      ADD_FAILURE() << bad << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kUsage);
      EXPECT_THAT(error.what(), testing::StartsWith("OMP_NUM_THREADS: expected an integer in [1, 4096], got"));
    }
  }
}

TEST(Threads, there_are_no_more_usable_cores_than_the_machine_has) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace lf
