// The watch over a device's collectives, on a table that fails when told: the first cause is kept, whoever waits is let
// go, and what no rank can make is refused on all.
#include "model/communicator.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "comm/key_value_store.h"
#include "comm/roll_call.h"
#include "support/host_device.h"
#include "support/thread_group.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What the table below does, one per process of tests: the ABI's new_id and create carry no context.
struct Script {
  std::atomic<int32_t> id_code = LF_OK, create_code = LF_OK, sum_code = LF_OK, state_code = LF_OK;
  std::atomic<int> aborts = 0, frees = 0, made = 0;
};

Script& script() {
  static Script the_script;
  return the_script;
}

int32_t answer(int32_t code, const char* text, lf_err* err) {
  if (code != LF_OK) sdk::set_error(err, code, text);
  return code;
}

const lf_collective_api* scripted() {
  static const lf_collective_api table = [] {
    auto t = sdk::with_header<lf_collective_api>();
    t.new_id = [](lf_sink id, lf_err* err) -> int32_t {
      if (script().id_code == LF_OK) sdk::put(id, "an id");
      return answer(script().id_code, "no library of collectives", err);
    };
    t.create = [](lf_device, const lf_communicator_config* config, lf_communicator* out, lf_err* err) -> int32_t {
      if (std::string_view(static_cast<const char*>(config->id), config->id_bytes) != "an id") return LF_E_INVALID;
      *out = reinterpret_cast<lf_communicator>(&script());
      ++script().made;
      return answer(config->rank == 1 ? script().create_code.load() : LF_OK, "no link to rank 0", err);
    };
    t.free = [](lf_communicator, lf_err*) -> int32_t { return ++script().frees, LF_OK; };
    t.abort = [](lf_communicator, lf_err*) -> int32_t { return ++script().aborts, LF_OK; };
    t.state = [](lf_communicator, lf_err* err) -> int32_t {
      return answer(script().state_code, "a peer is gone", err);
    };
    t.all_reduce = [](lf_communicator, const void*, void*, uint64_t, int32_t, int32_t, lf_stream,
                      lf_err* err) -> int32_t { return answer(script().sum_code, "the call was refused", err); };
    return t;
  }();
  return &table;
}

class CommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    script().id_code = script().create_code = script().sum_code = script().state_code = LF_OK;
    script().aborts = script().frees = script().made = 0;
  }
  std::unique_ptr<Communicator> make(Exchange& meeting) {
    return std::make_unique<Communicator>(device_, scripted(), meeting, CommunicatorConfig{.name = "gradients"});
  }
  static std::string text_of(const std::function<void()>& call, Exit exit) {
    try {
      call();
      return "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), exit);
      return error.what();
    }
  }
  const Device device_{test::host_device(), "card", 0};
  LocalExchange alone_;
};

TEST_F(CommunicatorTest, an_error_that_shows_later_ends_what_waits_and_is_the_cause_from_then_on) {
  const auto communicator = make(alone_);
  communicator->all_reduce_f32(nullptr, 0, nullptr);
  communicator->require_sound();
  script().state_code = LF_E_COMM;
  while (script().aborts == 0) std::this_thread::yield();
  script().state_code = LF_E_ABORTED;  // what a plugin says from then on
  const std::string cause = text_of([&] { communicator->require_sound(); }, Exit::kUnavailable);
  EXPECT_EQ(cause, "device card, gradients: a peer is gone");
  EXPECT_EQ(text_of([&] { communicator->all_reduce_f32(nullptr, 0, nullptr); }, Exit::kUnavailable), cause);
  EXPECT_EQ(script().aborts, 1);
}

TEST_F(CommunicatorTest, a_call_that_is_refused_ends_the_communicator_and_says_whose_fault_it_was) {
  for (const auto& [code, exit] :
       {std::pair{LF_E_TIMEOUT, Exit::kUnavailable}, std::pair{LF_E_DEVICE_LOST, Exit::kUnavailable},
        std::pair{LF_E_INVALID, Exit::kBug}, std::pair{LF_E_EXCEPTION, Exit::kBug}}) {
    SetUp();
    const auto communicator = make(alone_);
    script().sum_code = code;
    EXPECT_THAT(text_of([&] { communicator->all_reduce_f32(nullptr, 0, nullptr); }, exit),
                HasSubstr("gradients: the call was refused"));
    EXPECT_EQ(script().aborts, 1);
  }
}

// Ranks 0 and 2 wait; 1 is stopped: nothing of it answers.
TEST_F(CommunicatorTest, a_collective_that_is_overdue_names_the_ranks_that_are_silent) {
  const auto store = in_process_store();
  test::with_thread_ranks(3, [&](Group& threads) {
    const auto membership = std::make_shared<Membership>(RendezvousConfig{.rank = threads.rank(), .size = 3}, store);
    struct Meeting final : Exchange {
      Group& of;
      std::shared_ptr<Membership> membership;
      Meeting(Group& group, std::shared_ptr<Membership> members) : of(group), membership(std::move(members)) {}
      int rank() const override { return of.rank(); }
      int size() const override { return of.size(); }
      std::vector<std::string> all_gather(const std::string& mine) override { return of.all_gather(mine); }
      std::vector<std::string> all_to_all(const std::vector<std::string>& to) override { return of.all_to_all(to); }
      std::unique_ptr<RollCall> roll_call(const std::string& name) override {
        return rank() == 1 ? nullptr : std::make_unique<StoredRoll>(membership, name);
      }
    } meeting(threads, membership);
    const auto communicator = make(meeting);
    threads.barrier();
    script().state_code = LF_E_TIMEOUT;
    std::string cause;
    while (cause.empty()) {
      try {
        communicator->require_sound();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } catch (const Error& error) {
        cause = error.what();
      }
    }
    EXPECT_EQ(cause, threads.rank() == 1 ? "device card, gradients: a peer is gone"
                                         : "device card, gradients: a peer is gone; rank 1 is silent: stopped, at "
                                           "something else, or cut off");
    threads.barrier();
  });
}

TEST_F(CommunicatorTest, a_sound_one_is_freed_without_an_abort) {
  make(alone_).reset();
  EXPECT_EQ(script().frees, 1);
  EXPECT_EQ(script().aborts, 0);
}

TEST_F(CommunicatorTest, what_one_rank_cannot_make_is_refused_on_all_with_that_ranks_reason) {
  for (const bool id : {true, false}) {
    SetUp();
    (id ? script().id_code : script().create_code) = LF_E_UNSUPPORTED;
    const char* reason = id ? "rank 0: no library of collectives" : "rank 1: no link to rank 0";
    test::with_thread_ranks(3, [&](Group& meeting) {
      EXPECT_THAT(text_of([&] { make(meeting); }, Exit::kUnavailable),
                  AllOf(HasSubstr("cannot be made"), HasSubstr(reason)));
    });
    EXPECT_EQ(script().frees, script().made);
  }
}

}  // namespace
}  // namespace lf
