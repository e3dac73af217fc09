#include "load/skipped.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/scratch_folder.h"

namespace lf {
namespace {

SkippedSample skipped_at(uint64_t position) {
  return {.step = static_cast<int64_t>(position / 4),
          .position = position,
          .index = position,
          .kind = "bad",
          .reason = fmt::format("train.jsonl:{}: not valid JSON", position)};
}

// Files of this process take no more than so many bytes, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class Skipped : public testing::Test {
 protected:
  void SetUp() override {
    SkippedList list(file_, 0);
    for (uint64_t position = 0; position < 100; ++position) list.add({skipped_at(position)});
    list.add({skipped_at(100), skipped_at(101)});
    old_ = content();
    ASSERT_EQ(std::ranges::count(old_, '\n'), 102);
  }
  std::string content() const {
    std::ifstream file(file_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string lines(int count) const {
    size_t end = 0;
    for (int i = 0; i < count; ++i) end = old_.find('\n', end) + 1;
    return old_.substr(0, end);
  }

  const test::ScratchFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "skipped.jsonl";
  std::string old_;
};

TEST_F(Skipped, what_is_about_to_be_seen_again_is_taken_out_and_half_a_line_too) {
  std::ofstream(file_, std::ios::app) << R"({"step":3,"position":7,)";
  SkippedList list(file_, 40);
  EXPECT_EQ(content(), lines(40));
  list.add({skipped_at(40)});
  EXPECT_EQ(content(), lines(41));
}

TEST_F(Skipped, a_full_disk_leaves_the_list_as_it_was_and_is_told_once) {
  testing::internal::CaptureStderr();
  {
    const FullDisk full(1000);
    SkippedList list(file_, 90);
    EXPECT_EQ(content(), old_);
    EXPECT_FALSE(std::filesystem::exists(file_.string() + ".part"));
    list.add({skipped_at(90)});
    EXPECT_EQ(content(), old_);
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, testing::HasSubstr("skipped.jsonl: cannot be written: File too large"));
  EXPECT_EQ(told.find("cannot be written"), told.rfind("cannot be written"));
}

TEST_F(Skipped, a_list_that_needs_no_change_is_not_written) {
  const auto before = std::filesystem::last_write_time(file_);
  const FullDisk full(1000);
  const SkippedList list(file_, 102);
  EXPECT_EQ(content(), old_);
  EXPECT_EQ(std::filesystem::last_write_time(file_), before);
}

TEST_F(Skipped, a_record_that_does_not_fit_leaves_no_half_behind) {
  SkippedList list(file_, 102);
  {
    const FullDisk full(old_.size() + 30);
    list.add({skipped_at(102)});
    EXPECT_EQ(content(), old_);
  }
  list.add({skipped_at(103)});
  EXPECT_THAT(content(), testing::StartsWith(old_ + R"({"step":26,"position":103,)"));
}

}  // namespace
}  // namespace lf
