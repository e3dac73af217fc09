// The cuda plugin on a real GPU; skipped, with the plugin's reason, where there is none. Run by
// tools/hardware/cuda_check.sh.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <unistd.h>

#include "plugins/kunlun/opened.h"

namespace lf::testing {
namespace {

using ::testing::Each;
using ::testing::TempDir;
using ::testing::Test;
using Clock = std::chrono::steady_clock;

struct Gpus {
  uint32_t count = 0;
  std::string why;  // there are none
};

// Asked in a process of its own: each case opens the CUDA runtime in another.
Gpus find_gpus() {
  const std::string answer = TempDir() + "cuda_gpus_" + std::to_string(getpid());
  run_alone({}, [&] {
    Opened plugin("cuda");
    uint32_t count = 0;
    std::string why;
    plugin.ok(plugin.device().probe(&count, sdk::string_sink(why), &plugin.err));
    std::ofstream(answer) << count << '\n' << why;
  });
  Gpus gpus;
  std::ifstream in(answer);
  in >> gpus.count >> std::ws;
  std::getline(in, gpus.why, '\0');
  std::filesystem::remove(answer);
  return gpus;
}

class CudaGpu : public Test {
 protected:
  void SetUp() override {
    if (gpus_.count == 0) GTEST_SKIP() << gpus_.why;
  }
  // Runs `body` in its own process.
  static void on_gpu(const std::function<void(Opened&)>& body) {
    run_alone({}, [&] {
      Opened plugin("cuda");
      body(plugin);
    });
  }
  const Gpus gpus_ = find_gpus();
};

TEST_F(CudaGpu, bytes_survive_copies_and_fills) {
  on_gpu([](Opened& plugin) {
    const lf_device device = plugin.open();
    std::vector<uint32_t> sent(1 << 22);
    std::iota(sent.begin(), sent.end(), 17U);
    auto* memory = static_cast<std::byte*>(plugin.upload(device, sent));
    plugin.ok(plugin.device().fill(device, memory + 4096, 0xCD, 4 << 20, nullptr, &plugin.err));
    std::fill_n(sent.begin() + 1024, 1 << 20, 0xCDCDCDCDU);
    EXPECT_TRUE(plugin.download<uint32_t>(device, memory, sent.size()) == sent);
  });
}

TEST_F(CudaGpu, bytes_survive_the_way_between_two_gpus) {
  if (gpus_.count < 2) GTEST_SKIP() << "there is one GPU";
  on_gpu([](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    std::vector<uint32_t> sent(1 << 28);
    std::iota(sent.begin(), sent.end(), 5U);
    void* here = plugin.upload(first, sent);
    void* there = plugin.allocate(second, sent.size() * 4);
    double milliseconds = 0;
    for (int i = 0; i < 2; ++i) {  // the first copy connects the two
      plugin.ok(plugin.device().synchronize(first, &plugin.err));
      const auto start = Clock::now();
      plugin.ok(plugin.device().copy(second, there, first, here, sent.size() * 4, nullptr, &plugin.err));
      plugin.ok(plugin.device().synchronize(second, &plugin.err));
      plugin.ok(plugin.device().synchronize(first, &plugin.err));
      milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    }
    std::printf("1 GiB from GPU to GPU: %.1f ms (%.1f GB/s)\n", milliseconds, sent.size() * 4 / milliseconds / 1e6);
    EXPECT_TRUE(plugin.download<uint32_t>(second, there, sent.size()) == sent);
  });
}

TEST_F(CudaGpu, statistics_follow_allocations_and_running_out_is_survived) {
  on_gpu([](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_memory_stats before = plugin.stats(device);
    void* gigabyte = plugin.allocate(device, uint64_t{1} << 30);
    const lf_memory_stats after = plugin.stats(device);
    EXPECT_GE(before.free_bytes - after.free_bytes, uint64_t{1} << 30);
    EXPECT_EQ(after.allocated_bytes, uint64_t{1} << 30);
    void* more = nullptr;
    EXPECT_EQ(plugin.device().memory_alloc(device, after.total_bytes, LF_MEMORY_MAIN, &more, &plugin.err),
              LF_E_NOMEM_DEVICE);
    plugin.ok(plugin.device().memory_free(device, gigabyte, &plugin.err));
    plugin.allocate(device, uint64_t{1} << 30);
  });
}

TEST_F(CudaGpu, copies_in_both_directions_overlap) {
  on_gpu([](Opened& plugin) {
    const lf_device device = plugin.open();
    const uint64_t bytes = uint64_t{1} << 30;
    void* up = plugin.allocate(device, bytes, LF_MEMORY_PINNED_HOST);
    void* down = plugin.allocate(device, bytes, LF_MEMORY_PINNED_HOST);
    void* here = plugin.allocate(device, bytes);
    void* there = plugin.allocate(device, bytes);
    const lf_stream first = plugin.stream(device), second = plugin.stream(device);
    const auto milliseconds = [&](bool both) {
      plugin.ok(plugin.device().synchronize(device, &plugin.err));
      const auto start = Clock::now();
      plugin.ok(plugin.device().copy(device, here, nullptr, up, bytes, first, &plugin.err));
      if (both) plugin.ok(plugin.device().copy(nullptr, down, device, there, bytes, second, &plugin.err));
      plugin.ok(plugin.device().synchronize(device, &plugin.err));
      return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    };
    milliseconds(true);  // the first use of pages and engines
    const double one = milliseconds(false), two = milliseconds(true);
    std::printf("1 GiB up: %.1f ms (%.1f GB/s); up and down at once: %.1f ms\n", one, bytes / one / 1e6, two);
    EXPECT_LT(two, 1.6 * one) << "one after the other takes twice as long";
  });
}

TEST_F(CudaGpu, events_time_what_a_stream_did) {
  on_gpu([](Opened& plugin) {
    const lf_device device = plugin.open();
    const uint64_t bytes = uint64_t{1} << 30;
    void* memory = plugin.allocate(device, bytes);
    const lf_stream stream = plugin.stream(device);
    const lf_event start = plugin.event(device), end = plugin.event(device);
    plugin.ok(plugin.device().fill(device, memory, 1, bytes, stream, &plugin.err));
    plugin.ok(plugin.device().event_record(start, stream, &plugin.err));
    plugin.ok(plugin.device().fill(device, memory, 2, bytes, stream, &plugin.err));
    plugin.ok(plugin.device().event_record(end, stream, &plugin.err));
    plugin.ok(plugin.device().event_synchronize(end, &plugin.err));
    double milliseconds = 0;
    plugin.ok(plugin.device().event_milliseconds(start, end, &milliseconds, &plugin.err));
    std::printf("1 GiB filled in %.3f ms (%.0f GB/s)\n", milliseconds, bytes / milliseconds / 1e6);
    EXPECT_GT(milliseconds, 0.01);
    EXPECT_LT(milliseconds, 1000);
  });
}

TEST_F(CudaGpu, two_processes_sum_over_nccl) {
  if (gpus_.count < 2) GTEST_SKIP() << "NCCL wants a GPU for each of two ranks, and there is one";
  const auto ends = run_ranks(2, {}, [](const Rank& rank) {
    Opened plugin("cuda");
    const lf_device device = plugin.open(rank.rank);
    std::string id;
    if (rank.rank == 0) plugin.ok(plugin.collective().new_id(sdk::string_sink(id), &plugin.err));
    id = rank.from_rank_0(id);
    auto config = sdk::with_header<lf_communicator_config>();
    config.rank = rank.rank;
    config.size = rank.size;
    config.id = id.data();
    config.id_bytes = id.size();
    config.timeout_ms = 60'000;
    config.name = sdk::str("check/dp");
    lf_communicator group = nullptr;
    ASSERT_EQ(plugin.collective().create(device, &config, &group, &plugin.err), LF_OK) << plugin.message();
    const uint64_t n = 10'000'000;
    void* memory = plugin.upload(device, std::vector<float>(n, static_cast<float>(rank.rank + 1)));
    const lf_stream stream = plugin.stream(device);
    plugin.ok(plugin.device().synchronize(device, &plugin.err));
    plugin.ok(
        plugin.collective().all_reduce(group, memory, memory, n, LF_DTYPE_F32, LF_REDUCE_SUM, stream, &plugin.err));
    plugin.ok(plugin.device().stream_synchronize(stream, &plugin.err));
    EXPECT_THAT(plugin.download<float>(device, memory, n), Each(3.0F));
    plugin.ok(plugin.collective().free(group, &plugin.err));
  });
  EXPECT_THAT(ends, Each(0));
}

}  // namespace
}  // namespace lf::testing
