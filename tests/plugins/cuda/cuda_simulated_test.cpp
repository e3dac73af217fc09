// The cuda plugin over a simulated CUDA runtime and NCCL: its calls, their order, its error paths, its collectives.
#include <chrono>
#include <cmath>
#include <thread>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "plugins/kunlun/opened.h"

namespace lf::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

Environment simulated(const Environment& more = {}) {
  Environment environment{{"LF_CUDA_HOME", std::string(LF_BUILD_DIR) + "/simulators/cuda"},
                          {"LF_SIM_XPU_COUNT", "4"},
                          {"LF_SIM_XPU_MEM", "134217728"}};
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

void alone(const Environment& more, const std::function<void(Opened&)>& body) {
  run_alone(simulated(more), [&] {
    Opened plugin("cuda");
    body(plugin);
  });
}

std::vector<uint8_t> pattern(size_t n) {
  std::vector<uint8_t> bytes(n);
  uint32_t state = 5;
  for (auto& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST(CudaDevice, the_simulator_is_told_apart_from_a_gpu) {
  alone({}, [](Opened& plugin) {
    EXPECT_EQ(plugin.reason(), "");
    const lf_device_info info = plugin.info(plugin.open(1));
    EXPECT_TRUE(info.abilities & LF_DEVICE_SIMULATED);
    EXPECT_THAT(info.name, HasSubstr("SIMULATED"));
    EXPECT_STREQ(info.arch, "sm_90");
    EXPECT_STREQ(info.bus, "0001:11:02.0");
    EXPECT_EQ(info.memory_bytes, 134217728U);
    EXPECT_EQ(info.torch_mode, LF_TORCH_LOAD_LIBRARY);
  });
}

TEST(CudaDevice, bytes_survive_copies_fills_and_the_way_between_gpus) {
  alone({}, [](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    auto expected = pattern(1'000'003);
    auto* memory = static_cast<uint8_t*>(plugin.upload(first, expected));
    plugin.ok(plugin.device().fill(first, memory + 11, 0xAB, 500'000, nullptr, &plugin.err));
    std::fill_n(expected.begin() + 11, 500'000, uint8_t{0xAB});
    void* there = plugin.allocate(second, expected.size());
    plugin.ok(plugin.device().copy(second, there, first, memory, expected.size(), nullptr, &plugin.err));
    EXPECT_TRUE(plugin.download<uint8_t>(second, there, expected.size()) == expected);
  });
}

// What the runtime answers to who enables it again tells whether the plugin had.
TEST(CudaDevice, gpus_that_can_reach_each_other_are_connected_once_and_others_are_copied_between_all_the_same) {
  constexpr int kEnabledBefore = 704, kUnsupported = 217;
  const auto copy = [](Opened& plugin, lf_device from, lf_device to) {
    const auto sent = pattern(10'000);
    void* there = plugin.allocate(to, sent.size());
    void* here = plugin.upload(from, sent);
    plugin.ok(plugin.device().copy(to, there, from, here, sent.size(), nullptr, &plugin.err));
    EXPECT_TRUE(plugin.download<uint8_t>(to, there, sent.size()) == sent);
  };
  const auto enabled_again = [](Opened& plugin, lf_device on, int to) {
    void* const runtime =
        dlopen((std::string(LF_BUILD_DIR) + "/simulators/cuda/lib/libcudart.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    auto* const enable = reinterpret_cast<int (*)(int, unsigned)>(dlsym(runtime, "cudaDeviceEnablePeerAccess"));
    plugin.ok(plugin.device().bind_thread(on, &plugin.err));
    return enable(to, 0);
  };
  alone({}, [&](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    for (int i = 0; i < 2; ++i) copy(plugin, first, second);
    copy(plugin, second, first);
    EXPECT_EQ(enabled_again(plugin, first, 1), kEnabledBefore);
    EXPECT_EQ(enabled_again(plugin, second, 0), kEnabledBefore);
    EXPECT_EQ(enabled_again(plugin, first, 2), 0);  // nothing was copied to that one
  });
  alone({{"LF_SIM_CUDA_PEERS", "0"}}, [&](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    copy(plugin, first, second);
    EXPECT_EQ(enabled_again(plugin, first, 1), kUnsupported);
  });
  // All links are taken (711), or it was enabled by somebody else (704): the copy is made, and no later call reports
  // it.
  for (const char* fault : {"cudaDeviceEnablePeerAccess@1=711", "cudaDeviceEnablePeerAccess@1=704"})
    alone({{"LF_SIM_XPU_FAIL", fault}}, [&](Opened& plugin) { copy(plugin, plugin.open(0), plugin.open(1)); });
}

TEST(CudaDevice, running_out_is_told_counted_and_survived) {
  alone({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    void* memory = nullptr;
    EXPECT_EQ(plugin.device().memory_alloc(device, 1 << 28, LF_MEMORY_MAIN, &memory, &plugin.err), LF_E_NOMEM_DEVICE);
    EXPECT_THAT(plugin.message(), AllOf(HasSubstr("268435456 bytes"), HasSubstr("cuda:0")));
    EXPECT_STREQ(plugin.err.domain, "cudart");
    memory = plugin.allocate(device, 1 << 20);
    const lf_memory_stats stats = plugin.stats(device);
    EXPECT_EQ(stats.n_out_of_memory, 1U);
    EXPECT_EQ(stats.allocated_bytes, 1U << 20);
    EXPECT_EQ(stats.free_bytes, 134217728U - (1 << 20));
    plugin.ok(plugin.device().memory_free(device, memory, &plugin.err));
    EXPECT_EQ(plugin.device().memory_free(device, memory, &plugin.err), LF_E_INVALID);
    EXPECT_EQ(plugin.device().memory_alloc(device, 16, LF_MEMORY_FAST, &memory, &plugin.err), LF_E_UNSUPPORTED);
  });
}

TEST(CudaDevice, pinned_memory_is_the_hosts) {
  alone({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    auto* pinned = static_cast<uint8_t*>(plugin.allocate(device, 1000, LF_MEMORY_PINNED_HOST));
    pinned[999] = 7;
    EXPECT_EQ(plugin.stats(device).allocated_bytes, 0U);
    plugin.ok(plugin.device().memory_free(device, pinned, &plugin.err));
  });
}

TEST(CudaDevice, events_order_streams_and_time_them) {
  alone({{"LF_SIM_XPU_MBPS", "10"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream writer = plugin.stream(device), reader = plugin.stream(device);
    const lf_event start = plugin.event(device), written = plugin.event(device);
    const auto sent = pattern(1'000'000);  // takes 100 ms
    std::vector<uint8_t> got(sent.size());
    plugin.ok(plugin.device().event_record(start, writer, &plugin.err));
    void* memory = plugin.upload(device, sent, writer);
    plugin.ok(plugin.device().event_record(written, writer, &plugin.err));
    int32_t done = 1;
    plugin.ok(plugin.device().event_query(written, &done, &plugin.err));
    EXPECT_EQ(done, 0);
    plugin.ok(plugin.device().stream_wait(reader, written, &plugin.err));
    plugin.ok(plugin.device().copy(nullptr, got.data(), device, memory, got.size(), reader, &plugin.err));
    plugin.ok(plugin.device().stream_synchronize(reader, &plugin.err));
    EXPECT_EQ(got, sent);
    double milliseconds = 0;
    plugin.ok(plugin.device().event_milliseconds(start, written, &milliseconds, &plugin.err));
    EXPECT_GE(milliseconds, 99);
  });
}

// The runtime counts the other way, from 0 to its range's -5, and takes nothing else.
TEST(CudaDevice, any_priority_is_taken_and_clamped_to_the_runtimes_range) {
  alone({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    void* const runtime =
        dlopen((std::string(LF_BUILD_DIR) + "/simulators/cuda/lib/libcudart.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(runtime, nullptr) << dlerror();
    auto* const priority_of = reinterpret_cast<int (*)(void*, int*)>(dlsym(runtime, "cudaStreamGetPriority"));
    ASSERT_NE(priority_of, nullptr);
    for (const auto& [asked, given] : {std::pair{-100, 0}, {0, 0}, {3, -3}, {100, -5}}) {
      lf_stream stream = nullptr;
      void* native = nullptr;
      plugin.ok(plugin.device().stream_new(device, asked, &stream, &plugin.err));
      plugin.ok(plugin.device().stream_native(stream, &native, &plugin.err));
      int priority = 1;
      EXPECT_EQ(priority_of(native, &priority), 0);
      EXPECT_EQ(priority, given) << "asked for " << asked;
    }
  });
}

TEST(CudaDevice, an_illegal_address_loses_the_device) {
  alone({{"LF_SIM_XPU_FAIL", "cudaStreamSynchronize@1=700"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    EXPECT_EQ(plugin.device().stream_synchronize(plugin.stream(device), &plugin.err), LF_E_DEVICE_LOST);
    EXPECT_THAT(plugin.message(), HasSubstr("start the process anew"));
    EXPECT_EQ(plugin.err.native, 700);
  });
}

TEST(CudaDevice, a_range_opens_and_closes_without_a_profiler) {
  alone({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    plugin.ok(plugin.device().range_push(device, sdk::str("step"), &plugin.err));
    plugin.ok(plugin.device().range_pop(device, &plugin.err));
  });
}

class Member {
 public:
  Member(const Rank& rank, int64_t timeout_ms = 20'000) : rank_(rank), plugin("cuda"), device(plugin.open(rank.rank)) {
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
    created = api().create(device, &config, &group, &plugin.err);
  }
  const lf_collective_api& api() const { return plugin.collective(); }
  int rank() const { return rank_.rank; }
  int size() const { return rank_.size; }

 private:
  Rank rank_;

 public:
  Opened plugin;
  lf_device device;
  lf_communicator group = nullptr;
  int32_t created = LF_OK;
};

void in_ranks(int size, const Environment& more, const std::function<void(Member&)>& body) {
  const auto ends = run_ranks(size, simulated(more), [&](const Rank& rank) {
    Member member(rank);
    ASSERT_EQ(member.created, LF_OK) << member.plugin.message();
    body(member);
    member.plugin.ok(member.api().free(member.group, &member.plugin.err));
  });
  EXPECT_THAT(ends, Each(0));
}

float value(int rank, uint64_t i) { return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) * 3.1F; }

TEST(CudaCollectives, sums_scatters_and_gathers_are_those_of_a_loop_in_rank_order) {
  in_ranks(3, {}, [](Member& m) {
    const uint64_t each = 50'001, n = each * m.size();
    std::vector<float> mine(n), expected(n);
    for (uint64_t i = 0; i < n; ++i) {
      mine[i] = value(m.rank(), i);
      expected[i] = value(0, i);
      for (int r = 1; r < m.size(); ++r) expected[i] += value(r, i);
    }
    void* in = m.plugin.upload(m.device, mine);
    void* out = m.plugin.allocate(m.device, n * 4);
    void* part = m.plugin.allocate(m.device, each * 4);
    m.plugin.ok(m.api().all_reduce(m.group, in, out, n, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    EXPECT_TRUE(m.plugin.download<float>(m.device, out, n) == expected);
    m.plugin.ok(m.plugin.device().fill(m.device, out, 0, n * 4, nullptr, &m.plugin.err));
    m.plugin.ok(m.api().reduce_scatter(m.group, in, part, each, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    m.plugin.ok(m.api().all_gather(m.group, part, out, each, LF_DTYPE_F32, nullptr, &m.plugin.err));
    EXPECT_TRUE(m.plugin.download<float>(m.device, out, n) == expected);
  });
}

TEST(CudaCollectives, broadcast_and_uneven_all_to_all_move_bytes_of_any_type) {
  in_ranks(3, {}, [](Member& m) {
    void* memory = m.plugin.upload(m.device, std::vector<uint8_t>(1000, static_cast<uint8_t>(m.rank() + 1)));
    m.plugin.ok(m.api().broadcast(m.group, memory, memory, 1000, LF_DTYPE_BOOL, 1, nullptr, &m.plugin.err));
    EXPECT_THAT(m.plugin.download<uint8_t>(m.device, memory, 1000), Each(2));

    const auto count = [](int from, int to) { return static_cast<uint64_t>((2 * from + 3 * to) % 4); };
    std::vector<uint64_t> n_send, send_at, n_recv, recv_at;
    std::vector<int16_t> sent, expected;
    for (int peer = 0; peer < m.size(); ++peer) {
      n_send.push_back(count(m.rank(), peer));
      send_at.push_back(sent.size());
      for (uint64_t i = 0; i < n_send.back(); ++i) sent.push_back(static_cast<int16_t>(m.rank() * 100 + peer * 10 + i));
      n_recv.push_back(count(peer, m.rank()));
      recv_at.push_back(expected.size());
      for (uint64_t i = 0; i < n_recv.back(); ++i)
        expected.push_back(static_cast<int16_t>(peer * 100 + m.rank() * 10 + i));
    }
    void* in = sent.empty() ? nullptr : m.plugin.upload(m.device, sent);
    void* out = expected.empty() ? nullptr : m.plugin.allocate(m.device, expected.size() * 2);
    m.plugin.ok(m.api().all_to_all(m.group, in, n_send.data(), send_at.data(), out, n_recv.data(), recv_at.data(),
                                   LF_DTYPE_I16, nullptr, &m.plugin.err));
    EXPECT_EQ(m.plugin.download<int16_t>(m.device, out, expected.size()), expected);
  });
}

TEST(CudaCollectives, a_group_of_large_sends_and_receives_does_not_deadlock) {
  in_ranks(2, {}, [](Member& m) {
    const uint64_t n = 1'000'000;
    void* in = m.plugin.upload(m.device, std::vector<int32_t>(n, m.rank()));
    void* out = m.plugin.allocate(m.device, n * 4);
    const lf_stream stream = m.plugin.stream(m.device);
    m.plugin.ok(m.plugin.device().synchronize(m.device, &m.plugin.err));
    m.plugin.ok(m.api().group_begin(m.group, &m.plugin.err));
    m.plugin.ok(m.api().send(m.group, in, n, LF_DTYPE_I32, 1 - m.rank(), stream, &m.plugin.err));
    m.plugin.ok(m.api().receive(m.group, out, n, LF_DTYPE_I32, 1 - m.rank(), stream, &m.plugin.err));
    m.plugin.ok(m.api().group_end(m.group, &m.plugin.err));
    m.plugin.ok(m.plugin.device().stream_synchronize(stream, &m.plugin.err));
    EXPECT_THAT(m.plugin.download<int32_t>(m.device, out, n), Each(1 - m.rank()));
  });
}

TEST(CudaDeaths, survivors_notice_a_dead_peer_abort_and_keep_their_gpu) {
  const auto ends = run_ranks(3, simulated(), [](const Rank& rank) {
    Member m(rank, 2000);  // ms; to meet in, too, on a busy machine
    ASSERT_EQ(m.created, LF_OK) << m.plugin.message();
    if (rank.rank == 2) _exit(42);
    void* memory = m.plugin.upload(m.device, std::vector<float>(100'000, 1));
    m.plugin.ok(
        m.api().all_reduce(m.group, memory, memory, 100'000, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    lf_err problem = sdk::make_err();
    int32_t state = LF_OK;
    for (int i = 0; i < 500 && state == LF_OK; ++i) {
      state = m.api().state(m.group, &problem);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_THAT(state, AnyOf(LF_E_TIMEOUT, LF_E_COMM)) << problem.message;
    EXPECT_THAT(problem.message, AllOf(HasSubstr("test/dp"), HasSubstr("rank " + std::to_string(rank.rank) + " of 3")));
    m.plugin.ok(m.api().abort(m.group, &m.plugin.err));
    EXPECT_EQ(m.api().state(m.group, &problem), LF_E_ABORTED);
    m.plugin.ok(m.plugin.device().synchronize(m.device, &m.plugin.err));
    m.plugin.ok(m.api().free(m.group, &m.plugin.err));
    EXPECT_THAT(m.plugin.download<int32_t>(m.device, m.plugin.upload(m.device, std::vector<int32_t>(10, 7)), 10),
                Each(7));
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 0, 42}));
}

TEST(CudaDeaths, an_asynchronous_error_of_nccl_breaks_the_group_for_good) {
  // The first queries belong to the meeting and to a collective, after which each rank knows that the other has met.
  in_ranks(2, {{"LF_SIM_XPU_FAIL", "asynchronous@9=6"}}, [](Member& m) {
    void* met = m.plugin.upload(m.device, std::vector<float>(1, 1));
    m.plugin.ok(m.api().all_reduce(m.group, met, met, 1, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err));
    m.plugin.ok(m.plugin.device().synchronize(m.device, &m.plugin.err));
    lf_err problem = sdk::make_err();
    int32_t state = LF_OK;
    for (int i = 0; i < 100 && state == LF_OK; ++i) state = m.api().state(m.group, &problem);
    EXPECT_EQ(state, LF_E_COMM);
    EXPECT_THAT(problem.message, HasSubstr("a remote process has gone"));
    EXPECT_EQ(problem.native, 6);
    EXPECT_STREQ(problem.domain, "nccl");
    void* memory = m.plugin.upload(m.device, std::vector<float>(5, 1));
    EXPECT_EQ(m.api().all_reduce(m.group, memory, memory, 5, LF_DTYPE_F32, LF_REDUCE_SUM, nullptr, &m.plugin.err),
              LF_E_COMM);
  });
}

TEST(CudaDeaths, a_rank_that_never_comes_ends_the_meeting_after_the_timeout) {
  const auto ends = run_ranks(2, simulated(), [](const Rank& rank) {
    if (rank.rank == 1) return;
    Member m(rank, 300);
    EXPECT_EQ(m.created, LF_E_TIMEOUT);
    EXPECT_THAT(m.plugin.message(), AllOf(HasSubstr("meeting of 2 ranks"), HasSubstr("300 ms")));
  });
  EXPECT_THAT(ends, Each(0));
}

TEST(CudaDeaths, wrong_arguments_leave_the_group_whole) {
  in_ranks(2, {}, [](Member& m) {
    void* memory = m.plugin.upload(m.device, std::vector<float>(5, 1));
    const auto reduce = [&](int32_t dtype, int32_t reduction) {
      return m.api().all_reduce(m.group, memory, memory, 5, dtype, reduction, nullptr, &m.plugin.err);
    };
    EXPECT_EQ(reduce(LF_DTYPE_I16, LF_REDUCE_SUM), LF_E_UNSUPPORTED);
    EXPECT_EQ(reduce(LF_DTYPE_F32, 77), LF_E_UNSUPPORTED);
    EXPECT_EQ(m.api().send(m.group, memory, 5, LF_DTYPE_F32, 9, nullptr, &m.plugin.err), LF_E_INVALID);
    m.plugin.ok(reduce(LF_DTYPE_F32, LF_REDUCE_SUM));
    EXPECT_THAT(m.plugin.download<float>(m.device, memory, 5), Each(2.0F));
  });
}

}  // namespace
}  // namespace lf::testing
