#include "model/call_watch.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "core/error.h"

namespace lf {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kSoon{20}, kNever{3'600'000};

std::string thrown_by(const CallWatch::Call& call) {
  try {
    call.require_in_time();
    return "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kUnavailable);
    return error.what();
  }
}

TEST(CallWatch, an_overdue_call_ends_what_waits_for_peers_and_its_caller_hears_which_one_hung) {
  CallWatch watch({.rank = 3, .limit = kSoon, .with_peers = kNever});
  std::promise<void> ended;
  const CallWatch::Ending ending(&watch, [&] { ended.set_value(); });
  const CallWatch::Call outer(&watch, "backward of text", /*waits_for_peers=*/true);
  const CallWatch::Call inner(&watch, "device card: event_synchronize");
  ended.get_future().wait();  // as a collective that is aborted lets its waiters go
  EXPECT_THAT(thrown_by(inner), AllOf(HasSubstr("event_synchronize has not returned for"), HasSubstr("call_timeout")));
  EXPECT_THAT(thrown_by(outer), HasSubstr("event_synchronize"));
}

TEST(CallWatch, the_innermost_call_is_named_where_the_outer_one_is_overdue) {
  CallWatch watch({.limit = kSoon, .with_peers = kNever});
  std::promise<void> ended;
  const CallWatch::Ending ending(&watch, [&] { ended.set_value(); });
  const CallWatch::Call outer(&watch, "forward of text");
  const CallWatch::Call inner(&watch, "device card: copy to the host", /*waits_for_peers=*/true);
  ended.get_future().wait();
  EXPECT_THAT(thrown_by(outer), HasSubstr("forward of text, in device card: copy to the host has not returned"));
}

TEST(CallWatch, other_threads_and_calls_in_time_are_left_alone) {
  CallWatch watch({.limit = kSoon, .with_peers = kNever});
  std::promise<void> ended;
  const CallWatch::Ending ending(&watch, [&] { ended.set_value(); });
  for (int i = 0; i < 1000; ++i) CallWatch::Call(&watch, "quick").require_in_time();
  const CallWatch::Call patient(&watch, "a sum over all ranks", /*waits_for_peers=*/true);
  std::thread([&] {
    const CallWatch::Call stuck(&watch, "stuck");
    ended.get_future().wait();
  }).join();
  EXPECT_EQ(thrown_by(patient), "nothing was thrown");
  EXPECT_EQ(thrown_by(CallWatch::Call(nullptr, "unwatched")), "nothing was thrown");
}

TEST(CallWatchDeathTest, a_call_that_never_comes_back_ends_the_process_with_last_words_for_the_peers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CallWatch watch(
            {.rank = 3, .limit = kSoon, .with_peers = kNever, .grace = kSoon, .told = [](const std::string& what) {
               fprintf(stderr, "told: %s\n", what.c_str());
             }});
        const CallWatch::Call call(&watch, "device card: synchronize");
        std::this_thread::sleep_for(std::chrono::hours(1));
      },
      testing::ExitedWithCode(69), "told: device card: synchronize has not returned");
}

}  // namespace
}  // namespace lf
