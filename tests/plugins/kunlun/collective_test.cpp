// Collectives between processes over the simulated library, against loops on the host.
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "opened.h"

namespace lf::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kOddNumbers =
    "BKCL_UNIQUE_ID_BYTES=216,BKCL_SUCCESS=0,BKCL_INVALID_ARGUMENT=31,BKCL_RUNTIME_ERROR=12,BKCL_SYSTEM_ERROR=44,"
    "BKCL_INTERNAL_ERROR=8,BKCL_UINT8=11,BKCL_INT32=7,BKCL_INT64=3,BKCL_FLOAT16=19,BKCL_FLOAT=2,BKCL_FLOAT64=23,"
    "BKCL_BFLOAT16=5,BKCL_ADD=4,BKCL_PRODUCT=1,BKCL_MIN=9,BKCL_MAX=6";
constexpr const char* kPlainNumbers =
    "BKCL_UNIQUE_ID_BYTES=128,BKCL_SUCCESS=0,BKCL_INVALID_ARGUMENT=1,BKCL_RUNTIME_ERROR=2,BKCL_SYSTEM_ERROR=3,"
    "BKCL_INTERNAL_ERROR=4,BKCL_UINT8=0,BKCL_INT32=1,BKCL_INT64=2,BKCL_FLOAT16=3,BKCL_FLOAT=4,BKCL_FLOAT64=5,"
    "BKCL_BFLOAT16=6,BKCL_ADD=0,BKCL_PRODUCT=1,BKCL_MIN=2,BKCL_MAX=3";

Environment with(const std::string& kind, const Environment& more = {}) {
  Environment environment{{"LF_KUNLUN_HOME", home(kind)}, {"LF_SIM_XPU_COUNT", "4"}, {"LF_SIM_XPU_MEM", "134217728"}};
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

// One rank with its card and its communicator.
class Member {
 public:
  Member(const Rank& rank, int64_t timeout_ms = 20'000) : rank_(rank), device_(plugin.open(rank.rank)) {
    std::string id;
    if (rank.rank == 0) plugin.ok(api().new_id(sdk::string_sink(id), &plugin.err));
    id = rank.from_rank_0(id);
    auto config = sdk::with_header<lf_communicator_config>();
    config.rank = rank.rank;
    config.size = rank.size;
    config.id = id.data();
    config.id_bytes = id.size();
    config.timeout_ms = timeout_ms;
    config.name = sdk::str("test/dp");
    created = api().create(device_, &config, &group, &plugin.err);
  }
  const lf_collective_api& api() const { return plugin.collective(); }
  lf_device device() const { return device_; }
  int rank() const { return rank_.rank; }
  int size() const { return rank_.size; }

  Opened plugin;
  lf_communicator group = nullptr;
  int32_t created = LF_OK;

 private:
  Rank rank_;
  lf_device device_;
};

void in_ranks(int size, const Environment& environment, const std::function<void(Member&)>& body) {
  const auto ends = run_ranks(size, environment, [&](const Rank& rank) {
    Member member(rank);
    ASSERT_EQ(member.created, LF_OK) << member.plugin.message();
    body(member);
    member.plugin.ok(member.api().free(member.group, &member.plugin.err));
  });
  EXPECT_THAT(ends, Each(0));
}

// What rank `rank` contributes: not representable sums, so that the order of summation shows.
float value(int rank, uint64_t i) { return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) * 3.1F; }

uint16_t to_bf16(float x) {  // round to nearest even
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// 200 k elements are several pieces of the simulator's rings.
constexpr uint64_t kCounts[] = {1, 7, 200'003};

TEST(KunlunCollectives, all_reduce_of_f32_sums_in_rank_order_on_every_rank) {
  for (const int size : {2, 3, 4})
    in_ranks(size, with("shimmed"), [](Member& m) {
      for (const uint64_t n : kCounts) {
        std::vector<float> mine(n), expected(n);
        for (uint64_t i = 0; i < n; ++i) {
          mine[i] = value(m.rank(), i);
          float sum = value(0, i);
          for (int r = 1; r < m.size(); ++r) sum += value(r, i);
          expected[i] = sum;
        }
        void* memory = m.plugin.upload(m.device(), mine);
        m.plugin.ok(
            m.api().all_reduce(m.group, memory, memory, n, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
        EXPECT_TRUE(m.plugin.download<float>(m.device(), memory, n) == expected) << n;
      }
    });
}

TEST(KunlunCollectives, all_reduce_of_bf16_sums_wide_and_rounds_once) {
  in_ranks(3, with("shimmed"), [](Member& m) {
    const uint64_t n = 100'001;
    std::vector<uint16_t> mine(n), expected(n);
    for (uint64_t i = 0; i < n; ++i) {
      mine[i] = to_bf16(value(m.rank(), i));
      float sum = from_bf16(to_bf16(value(0, i)));
      for (int r = 1; r < m.size(); ++r) sum += from_bf16(to_bf16(value(r, i)));
      expected[i] = to_bf16(sum);
    }
    void* in = m.plugin.upload(m.device(), mine);
    void* out = m.plugin.allocate(m.device(), n * 2);
    m.plugin.ok(m.api().all_reduce(m.group, in, out, n, LF_DTYPE_BF16, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    EXPECT_TRUE(m.plugin.download<uint16_t>(m.device(), out, n) == expected);
  });
}

TEST(KunlunCollectives, all_reduce_of_i64_gives_sum_largest_and_smallest) {
  in_ranks(4, with("shimmed"), [](Member& m) {
    const auto at = [](int rank, int64_t i) { return (int64_t{1} << 40) * (rank % 3) - i * (rank + 1); };
    const int64_t n = 1000;
    std::vector<int64_t> mine(n), sums(n, 0), largest(n, INT64_MIN), smallest(n, INT64_MAX);
    for (int64_t i = 0; i < n; ++i) {
      mine[i] = at(m.rank(), i);
      for (int r = 0; r < m.size(); ++r) {
        sums[i] += at(r, i);
        largest[i] = std::max(largest[i], at(r, i));
        smallest[i] = std::min(smallest[i], at(r, i));
      }
    }
    void* in = m.plugin.upload(m.device(), mine);
    void* out = m.plugin.allocate(m.device(), n * 8);
    const auto reduce = [&](int32_t reduction) {
      m.plugin.ok(m.api().all_reduce(m.group, in, out, n, LF_DTYPE_I64, reduction, nullptr, &m.plugin.err));
      return m.plugin.download<int64_t>(m.device(), out, n);
    };
    EXPECT_EQ(reduce(LF_REDUCE_SUM), sums);
    EXPECT_EQ(reduce(LF_REDUCE_MAX), largest);
    EXPECT_EQ(reduce(LF_REDUCE_MIN), smallest);
  });
}

TEST(KunlunCollectives, reduce_scatter_then_all_gather_is_all_reduce) {
  in_ranks(4, with("shimmed"), [](Member& m) {
    const uint64_t each = 30'011, n = each * m.size();
    std::vector<float> mine(n);
    for (uint64_t i = 0; i < n; ++i) mine[i] = value(m.rank(), i);
    void* in = m.plugin.upload(m.device(), mine);
    void* part = m.plugin.allocate(m.device(), each * 4);
    void* whole = m.plugin.allocate(m.device(), n * 4);
    m.plugin.ok(m.api().reduce_scatter(m.group, in, part, each, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    m.plugin.ok(m.api().all_gather(m.group, part, whole, each, LF_DTYPE_F32, nullptr, &m.plugin.err));
    std::vector<float> expected(n);
    for (uint64_t i = 0; i < n; ++i) {
      expected[i] = value(0, i);
      for (int r = 1; r < m.size(); ++r) expected[i] += value(r, i);
    }
    EXPECT_TRUE(m.plugin.download<float>(m.device(), whole, n) == expected);
  });
}

TEST(KunlunCollectives, all_to_all_moves_uneven_and_empty_rows_of_any_element_type) {
  in_ranks(3, with("shimmed"), [](Member& m) {
    // Rank r sends (2 r + 3 p) % 4 elements to rank p; some are none. Element types that the vendor lacks go as bytes.
    const auto count = [](int from, int to) { return static_cast<uint64_t>((2 * from + 3 * to) % 4); };
    const auto element = [](int from, int to, uint64_t i) { return static_cast<int16_t>(from * 1000 + to * 100 + i); };
    std::vector<uint64_t> n_send, send_at, n_recv, recv_at;
    std::vector<int16_t> sent, expected;
    for (int peer = 0; peer < m.size(); ++peer) {
      n_send.push_back(count(m.rank(), peer));
      send_at.push_back(sent.size());
      for (uint64_t i = 0; i < n_send.back(); ++i) sent.push_back(element(m.rank(), peer, i));
      n_recv.push_back(count(peer, m.rank()));
      recv_at.push_back(expected.size());
      for (uint64_t i = 0; i < n_recv.back(); ++i) expected.push_back(element(peer, m.rank(), i));
    }
    void* in = sent.empty() ? nullptr : m.plugin.upload(m.device(), sent);
    void* out = m.plugin.allocate(m.device(), expected.size() * 2);
    for (int round = 0; round < 40; ++round)  // more than the arrays that may be in flight
      m.plugin.ok(m.api().all_to_all(m.group, in, n_send.data(), send_at.data(), out, n_recv.data(), recv_at.data(),
                                     LF_DTYPE_I16, nullptr, &m.plugin.err));
    EXPECT_EQ(m.plugin.download<int16_t>(m.device(), out, expected.size()), expected);
  });
}

TEST(KunlunCollectives, broadcast_gives_the_roots_bytes_to_all) {
  in_ranks(3, with("shimmed"), [](Member& m) {
    std::vector<uint8_t> mine(70'000, static_cast<uint8_t>(m.rank() + 1));
    void* memory = m.plugin.upload(m.device(), mine);
    m.plugin.ok(m.api().broadcast(m.group, memory, memory, mine.size(), LF_DTYPE_BOOL, 2, nullptr, &m.plugin.err));
    EXPECT_THAT(m.plugin.download<uint8_t>(m.device(), memory, mine.size()), Each(3));
  });
}

TEST(KunlunCollectives, a_group_of_sends_and_receives_larger_than_any_buffer_does_not_deadlock) {
  in_ranks(3, with("shimmed"), [](Member& m) {
    const int next = (m.rank() + 1) % m.size(), before = (m.rank() + m.size() - 1) % m.size();
    const uint64_t n = 1'000'000;  // 4 MB; the rings hold 256 KiB
    void* in = m.plugin.upload(m.device(), std::vector<int32_t>(n, m.rank()));
    void* out = m.plugin.allocate(m.device(), n * 4);
    m.plugin.ok(m.api().group_begin(m.group, &m.plugin.err));
    m.plugin.ok(m.api().send(m.group, in, n, LF_DTYPE_I32, next, nullptr, &m.plugin.err));
    m.plugin.ok(m.api().receive(m.group, out, n, LF_DTYPE_I32, before, nullptr, &m.plugin.err));
    m.plugin.ok(m.api().group_end(m.group, &m.plugin.err));
    EXPECT_THAT(m.plugin.download<int32_t>(m.device(), out, n), Each(before));
  });
}

TEST(KunlunCollectives, collectives_on_a_stream_of_their_own_follow_its_order) {
  in_ranks(2, with("shimmed", {{"LF_SIM_XPU_MBPS", "50"}}), [](Member& m) {
    const lf_stream stream = m.plugin.stream(m.device());
    const uint64_t n = 250'000;
    std::vector<float> mine(n, 1.0F), got(n);
    void* memory = m.plugin.upload(m.device(), mine, stream);  // slow, and still under way below
    m.plugin.ok(m.api().all_reduce(m.group, memory, memory, n, LF_DTYPE_F32, LF_REDUCE_SUM, stream, &m.plugin.err));
    m.plugin.ok(m.plugin.device().copy(nullptr, got.data(), m.device(), memory, n * 4, stream, &m.plugin.err));
    m.plugin.ok(m.plugin.device().stream_synchronize(stream, &m.plugin.err));
    EXPECT_THAT(got, Each(2.0F));
  });
}

void sum_to(Member& m, float expected) {
  void* memory = m.plugin.upload(m.device(), std::vector<float>(5, static_cast<float>(m.rank() + 1)));
  m.plugin.ok(m.api().all_reduce(m.group, memory, memory, 5, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
  EXPECT_THAT(m.plugin.download<float>(m.device(), memory, 5), Each(expected));
}

TEST(KunlunBinding, names_of_either_language_serve_with_numbers_from_the_header) {
  in_ranks(2, with("plain", {{"LF_KUNLUN_BKCL_NUMBERS", kPlainNumbers}}), [](Member& m) { sum_to(m, 3); });
  in_ranks(2, with("mangled", {{"LF_KUNLUN_BKCL_NUMBERS", kOddNumbers}}), [](Member& m) { sum_to(m, 3); });
  in_ranks(2, with("spaced", {{"LF_KUNLUN_BKCL_NUMBERS", kOddNumbers}}), [](Member& m) {
    sum_to(m, 3);
    EXPECT_THAT(m.plugin.log(), HasSubstr("C++ names"));
  });
}

TEST(KunlunBinding, a_shim_kept_elsewhere_is_found_by_its_variable) {
  const std::string shim = home("spaced_shim") + "/liblf_bkcl_shim.so";
  in_ranks(2, with("spaced", {{"LF_KUNLUN_BKCL_SHIM", shim}}), [&](Member& m) {
    sum_to(m, 3);
    EXPECT_THAT(m.plugin.log(), HasSubstr(shim));
  });
}

TEST(KunlunBinding, a_shim_built_for_another_installation_is_refused) {
  const std::string shim = home("shimmed") + "/liblf_bkcl_shim.so";
  // Its need of libbkcl.so is met by the copy that is open already, whose names differ.
  run_alone(with("plain", {{"LF_KUNLUN_BKCL_SHIM", shim}}), [] {
    Opened plugin;
    plugin.open();
    std::string id;
    EXPECT_EQ(plugin.collective().new_id(sdk::string_sink(id), &plugin.err), LF_E_UNSUPPORTED);
    EXPECT_THAT(plugin.message(), HasSubstr("bkcl_"));
  });
}

std::string refusal(Opened& plugin, int32_t code) {
  plugin.open();
  std::string id;
  EXPECT_EQ(plugin.collective().new_id(sdk::string_sink(id), &plugin.err), code);
  return plugin.message();
}

TEST(KunlunBinding, without_shim_and_numbers_collectives_are_refused_and_the_way_out_is_named) {
  for (const char* kind : {"plain", "mangled", "spaced"})
    run_alone(with(kind), [] {
      Opened plugin;
      EXPECT_THAT(refusal(plugin, LF_E_UNSUPPORTED), AllOf(HasSubstr("numbers"), HasSubstr("bkcl_shim.cpp")));
    });
  run_alone(with("bare"), [] {
    Opened plugin;
    EXPECT_THAT(refusal(plugin, LF_E_UNSUPPORTED), HasSubstr("no libbkcl.so"));
  });
}

TEST(KunlunBinding, numbers_that_are_incomplete_or_wrong_do_not_pass) {
  run_alone(with("plain", {{"LF_KUNLUN_BKCL_NUMBERS", "BKCL_SUCCESS=0,BKCL_FLOAT=4"}}), [] {
    Opened plugin;
    EXPECT_THAT(refusal(plugin, LF_E_UNSUPPORTED), AllOf(HasSubstr("lacks"), HasSubstr("BKCL_INT64")));
  });
  run_alone(with("plain", {{"LF_KUNLUN_BKCL_NUMBERS", "BKCL_SUCCESS=zero"}}), [] {
    Opened plugin;
    EXPECT_THAT(refusal(plugin, LF_E_UNSUPPORTED), HasSubstr("BKCL_SUCCESS=zero"));
  });
  // The id of this library has 216 bytes.
  run_alone(with("mangled", {{"LF_KUNLUN_BKCL_NUMBERS", kPlainNumbers}}), [] {
    Opened plugin;
    EXPECT_THAT(refusal(plugin, LF_E_INVALID), HasSubstr("larger than the 128 bytes"));
  });
}

TEST(KunlunBinding, guessed_numbers_are_found_out_by_this_very_test) {
  // The simulator's odd build with the numbers of the plain one: this is what hard-coded numbers would do.
  std::string guessed = kPlainNumbers;
  guessed.replace(guessed.find("=128"), 4, "=216");
  const auto ends = run_ranks(2, with("mangled", {{"LF_KUNLUN_BKCL_NUMBERS", guessed}}), [](const Rank& rank) {
    Member m(rank);
    void* memory = m.plugin.upload(m.device(), std::vector<float>(5, 1));
    EXPECT_NE(m.api().all_reduce(m.group, memory, memory, 5, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err),
              LF_OK);
  });
  EXPECT_THAT(ends, Each(0));
}

// Rank 2 dies before the collective that the others enter.
TEST(KunlunDeaths, survivors_notice_a_dead_peer_abort_and_go_on_without_it) {
  const auto start = std::chrono::steady_clock::now();
  const auto ends = run_ranks(3, with("shimmed"), [](const Rank& rank) {
    Member m(rank, 2000);  // ms; to meet in, too, on a busy machine
    ASSERT_EQ(m.created, LF_OK) << m.plugin.message();
    if (rank.rank == 2) _exit(42);
    void* memory = m.plugin.upload(m.device(), std::vector<float>(100'000, 1));
    m.plugin.ok(
        m.api().all_reduce(m.group, memory, memory, 100'000, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    lf_err problem = sdk::make_err();
    int32_t state = LF_OK;
    for (int i = 0; i < 500 && state == LF_OK; ++i) {
      state = m.api().state(m.group, &problem);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // Whoever aborts first tears the group down for its peer too.
    EXPECT_THAT(state, AnyOf(LF_E_TIMEOUT, LF_E_COMM)) << problem.message;
    EXPECT_THAT(problem.message, AllOf(HasSubstr("test/dp"), HasSubstr("rank " + std::to_string(rank.rank) + " of 3")));
    m.plugin.ok(m.api().abort(m.group, &m.plugin.err));
    m.plugin.ok(m.plugin.device().synchronize(m.device(), &m.plugin.err));
    EXPECT_NE(m.api().all_reduce(m.group, memory, memory, 1, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err),
              LF_OK);
    m.plugin.ok(m.api().free(m.group, &m.plugin.err));
    // The card itself is sound.
    EXPECT_THAT(m.plugin.download<int32_t>(m.device(), m.plugin.upload(m.device(), std::vector<int32_t>(10, 7)), 10),
                Each(7));
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 0, 42}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(KunlunDeaths, abort_from_another_thread_frees_a_stream_that_waits_for_a_peer) {
  const auto ends = run_ranks(2, with("shimmed"), [](const Rank& rank) {
    Member m(rank);
    if (rank.rank == 1) _exit(42);
    void* memory = m.plugin.upload(m.device(), std::vector<float>(10, 1));
    m.plugin.ok(m.api().all_reduce(m.group, memory, memory, 10, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    std::thread watchdog([&] {
      lf_err err = sdk::make_err();
      EXPECT_EQ(m.api().abort(m.group, &err), LF_OK) << err.message;
    });
    m.plugin.ok(m.plugin.device().synchronize(m.device(), &m.plugin.err));  // would hang for ever
    watchdog.join();
    lf_err problem = sdk::make_err();
    EXPECT_EQ(m.api().state(m.group, &problem), LF_E_ABORTED);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 42}));
}

TEST(KunlunDeaths, the_vendors_own_timeout_loses_the_device_and_says_so) {
  const auto ends = run_ranks(2, with("shimmed", {{"BKCL_TIMEOUT", "0.3"}}), [](const Rank& rank) {
    Member m(rank, 0);
    if (rank.rank == 1) _exit(42);
    void* memory = m.plugin.upload(m.device(), std::vector<float>(10, 1));
    m.plugin.ok(m.api().all_reduce(m.group, memory, memory, 10, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    EXPECT_EQ(m.plugin.device().synchronize(m.device(), &m.plugin.err), LF_E_DEVICE_LOST);
    EXPECT_THAT(m.plugin.message(), HasSubstr("timeout on the device"));
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 42}));
}

TEST(KunlunDeaths, a_rank_that_never_comes_ends_the_meeting_after_the_timeout) {
  const auto ends = run_ranks(2, with("shimmed"), [](const Rank& rank) {
    if (rank.rank == 1) return;
    Member m(rank, 300);
    EXPECT_EQ(m.created, LF_E_TIMEOUT);
    EXPECT_THAT(m.plugin.message(), AllOf(HasSubstr("2 ranks did not meet"), HasSubstr("300 ms")));
  });
  EXPECT_THAT(ends, Each(0));
}

TEST(KunlunDeaths, an_error_of_the_library_breaks_the_group_for_good) {
  in_ranks(2, with("shimmed", {{"LF_SIM_XPU_FAIL", "bkcl_all_reduce@2=44"}}), [](Member& m) {
    sum_to(m, 3);
    void* memory = m.plugin.upload(m.device(), std::vector<float>(5, 1));
    const auto reduce = [&] {
      return m.api().all_reduce(m.group, memory, memory, 5, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err);
    };
    EXPECT_EQ(reduce(), LF_E_COMM);
    EXPECT_EQ(reduce(), LF_E_COMM) << "the third call of the library would have worked";
    lf_err problem = sdk::make_err();
    EXPECT_EQ(m.api().state(m.group, &problem), LF_E_COMM);
    EXPECT_THAT(problem.message, HasSubstr("a peer is gone"));
  });
}

TEST(KunlunDeaths, wrong_arguments_leave_the_group_whole) {
  in_ranks(2, with("shimmed"), [](Member& m) {
    void* memory = m.plugin.upload(m.device(), std::vector<float>(5, 1));
    const auto& api = m.api();
    EXPECT_EQ(api.all_reduce(m.group, memory, memory, 5, LF_DTYPE_I16, LF_REDUCE_SUM, nullptr, &m.plugin.err),
              LF_E_UNSUPPORTED);
    EXPECT_EQ(api.all_reduce(m.group, memory, memory, 5, LF_DTYPE_F32, 77, nullptr, &m.plugin.err), LF_E_UNSUPPORTED);
    EXPECT_EQ(api.send(m.group, memory, 5, LF_DTYPE_F32, 9, nullptr, &m.plugin.err), LF_E_INVALID);
    std::vector<float> on_the_host(5);
    EXPECT_EQ(
        api.broadcast(m.group, on_the_host.data(), on_the_host.data(), 5, LF_DTYPE_F32, 0, nullptr, &m.plugin.err),
        LF_E_INVALID);
    sum_to(m, 3);
  });
}

TEST(KunlunDeaths, an_older_runtime_reduces_too) {
  in_ranks(2, with("kl2", {{"LF_KUNLUN_BKCL_NUMBERS", kPlainNumbers}}), [](Member& m) { sum_to(m, 3); });
}

}  // namespace
}  // namespace lf::testing
