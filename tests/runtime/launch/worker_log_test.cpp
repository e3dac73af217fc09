#include "launch/worker_log.h"

#include <fstream>

#include <gmock/gmock.h>
#include <stdlib.h>

namespace lf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WorkerLog : public testing::Test {
 protected:
  WorkerLog() {
    std::string name = testing::TempDir() + "lf_log_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~WorkerLog() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(WorkerLog, the_last_lines_are_the_last_and_only_what_is_new) {
  const auto file = folder_ / "log";
  std::ofstream(file) << "old\n";
  const auto before = size_or_zero(file);
  EXPECT_THAT(last_lines(file, before, 20), IsEmpty());
  std::ofstream(file, std::ios::app) << "one\ntwo\nthree";
  EXPECT_THAT(last_lines(file, before, 20), ElementsAre("one", "two", "three"));
  EXPECT_THAT(last_lines(file, before, 2), ElementsAre("two", "three"));
  EXPECT_THAT(last_lines(folder_ / "absent", 0, 2), IsEmpty());
}

TEST_F(WorkerLog, a_huge_log_costs_no_more_than_its_end) {
  const auto file = folder_ / "log";
  {
    std::ofstream out(file);
    for (int i = 0; i < 200'000; ++i) out << "line " << i << "\n";
  }
  EXPECT_THAT(last_lines(file, 0, 2), ElementsAre("line 199998", "line 199999"));
}

}  // namespace
}  // namespace lf
