#include "launch/threads.h"

#include <thread>

#include <gmock/gmock.h>

#include "core/error.h"

namespace lf {
namespace {

int threads_of(int wanted, int workers, const Environment& environment, int cores, const std::string& mode = "fast") {
  JobConfig config;
  config.launch.threads = wanted;
  config.reduction.mode = mode;
  return threads_of_worker(config, workers, environment, cores);
}

// The order of sums inside a worker follows its threads: it must not depend on how many workers share the cores.
TEST(Threads, where_bits_must_not_depend_on_the_layout_only_the_job_gives_more_than_one) {
  for (const int workers : {1, 2, 4}) {
    EXPECT_EQ(threads_of(0, workers, {}, 16, "fixed"), 1);
    EXPECT_EQ(threads_of(0, workers, {{"OMP_NUM_THREADS", "7"}}, 16, "fixed"), 1);
    EXPECT_EQ(threads_of(3, workers, {}, 16, "fixed"), 3);
  }
}

TEST(Threads, the_job_wins_then_the_environment_then_the_cores_are_divided) {
  EXPECT_EQ(threads_of(3, 4, {{"OMP_NUM_THREADS", "7"}}, 16), 3);
  EXPECT_EQ(threads_of(0, 4, {{"OMP_NUM_THREADS", "7"}}, 16), 7);
  EXPECT_EQ(threads_of(0, 4, {}, 16), 4);
  EXPECT_EQ(threads_of(0, 3, {}, 16), 5);
  EXPECT_EQ(threads_of(0, 8, {}, 2), 1);
}

TEST(Threads, an_environment_that_is_no_number_is_refused) {
  for (const char* bad : {"0", "many", "4,2", "-1"}) {
    try {
      threads_of(0, 1, {{"OMP_NUM_THREADS", bad}}, 4);
      ADD_FAILURE() << bad << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kUsage);
      EXPECT_THAT(error.what(), testing::StartsWith("OMP_NUM_THREADS: expected an integer in [1, 4096], got"));
    }
  }
}

TEST(Threads, more_than_the_cores_of_the_host_are_warned_of_unless_every_worker_has_only_one) {
  EXPECT_EQ(too_many_threads(4, 2, 8), "");
  EXPECT_EQ(too_many_threads(1, 4, 2), "") << "as many workers as the job asks for";
  EXPECT_THAT(too_many_threads(4, 3, 8),
              testing::StartsWith("warning: 4 threads for each of 3 workers on this host of 8 cores"));
  EXPECT_THAT(too_many_threads(4096, 1, 1), testing::HasSubstr("each of 1 worker on this host of 1 core:"));
}

TEST(Threads, there_are_no_more_usable_cores_than_the_machine_has) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace lf
