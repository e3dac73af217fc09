// The plugin as the core uses it: loaded from the build's plugin folder, called through its tables.
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

#include "lf/plugin_api/device.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/plugins.h"

namespace lf {
namespace {

using testing::HasSubstr;

class CpuPlugin : public testing::Test {
 protected:
  CpuPlugin()
      : plugins_({LF_BUILD_DIR "/plugins"}, PluginHost{.torch_build = "none"}),
        plugin_(plugins_.load(PluginKind::kDevice, "cpu")),
        api_(*plugin_.interface<lf_device_api>(LF_DEVICE_INTERFACE)) {
    sdk::check(api_.open(0, &device_, &err_), err_);
  }
  ~CpuPlugin() override { EXPECT_EQ(api_.close(device_, &err_), LF_OK) << err_.message; }

  void* allocate(uint64_t bytes) {
    void* memory = nullptr;
    sdk::check(api_.memory_alloc(device_, bytes, LF_MEMORY_MAIN, &memory, &err_), err_);
    return memory;
  }
  void free(void* memory) { sdk::check(api_.memory_free(device_, memory, &err_), err_); }
  lf_memory_stats stats() {
    lf_memory_stats stats = sdk::with_header<lf_memory_stats>();
    sdk::check(api_.memory_stats(device_, &stats, &err_), err_);
    return stats;
  }

  PluginSet plugins_;
  Plugin& plugin_;
  const lf_device_api& api_;
  lf_err err_ = sdk::make_err();
  lf_device device_ = nullptr;
};

TEST_F(CpuPlugin, needs_no_libtorch_and_offers_no_collectives) {
  EXPECT_EQ(plugin_.manifest().torch, "none");
  EXPECT_EQ(plugin_.interface<void>("lf.collective/1"), nullptr);
}

TEST_F(CpuPlugin, there_is_one_device_and_no_second) {
  uint32_t count = 0;
  std::string reason;
  EXPECT_EQ(api_.probe(&count, sdk::string_sink(reason), &err_), LF_OK);
  EXPECT_EQ(count, 1u);
  lf_device second = nullptr;
  EXPECT_EQ(api_.open(1, &second, &err_), LF_E_NO_DEVICE);
  EXPECT_THAT(err_.message, HasSubstr("expected ordinal 0, got 1"));
}

TEST_F(CpuPlugin, info_is_what_the_system_says_and_claims_no_peak) {
  lf_device_info info = sdk::with_header<lf_device_info>();
  ASSERT_EQ(api_.info(device_, &info, &err_), LF_OK);
  EXPECT_EQ(info.uid, 0u);
  EXPECT_STREQ(info.torch_device, "cpu");
  EXPECT_EQ(info.torch_mode, LF_TORCH_BUILT_IN);
  EXPECT_GT(std::strlen(info.name), 0u);
  const auto physical = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_LE(info.memory_bytes, physical);
  EXPECT_GT(info.memory_bytes, 0u);
  EXPECT_EQ(info.peak_flops_bf16, 0.0);
  EXPECT_EQ(info.peak_flops_fp32, 0.0);
}

TEST_F(CpuPlugin, a_caller_that_knows_less_of_a_struct_gets_no_more_than_that) {
  lf_device_info info = sdk::with_header<lf_device_info>();
  info.h.size = offsetof(lf_device_info, memory_bytes);
  info.memory_bytes = 4711;
  ASSERT_EQ(api_.info(device_, &info, &err_), LF_OK);
  EXPECT_EQ(info.h.size, offsetof(lf_device_info, memory_bytes));
  EXPECT_GT(std::strlen(info.name), 0u);
  EXPECT_EQ(info.memory_bytes, 4711u);
}

TEST_F(CpuPlugin, memory_is_aligned_and_counted_with_its_peak) {
  std::vector<void*> blocks;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{1000}, uint64_t{1} << 20}) {
    blocks.push_back(allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0u);
    std::memset(blocks.back(), 0xAB, bytes);
  }
  constexpr uint64_t kSum = 1 + 64 + 1000 + (1 << 20);
  EXPECT_EQ(stats().allocated_bytes, kSum);
  for (void* block : blocks) free(block);
  EXPECT_EQ(stats().allocated_bytes, 0u);
  EXPECT_EQ(stats().peak_bytes, kSum);
  EXPECT_EQ(stats().n_alloc, 4u);
  EXPECT_GT(stats().free_bytes, 0u);
}

TEST_F(CpuPlugin, zero_bytes_are_a_null_pointer_that_may_be_freed) {
  EXPECT_EQ(allocate(0), nullptr);
  free(nullptr);
  EXPECT_EQ(stats().n_alloc, 0u);
}

TEST_F(CpuPlugin, freeing_twice_or_a_foreign_address_is_refused) {
  void* memory = allocate(10);
  int mine = 0;
  EXPECT_EQ(api_.memory_free(device_, &mine, &err_), LF_E_INVALID);
  free(memory);
  EXPECT_EQ(api_.memory_free(device_, memory, &err_), LF_E_INVALID);
  EXPECT_THAT(err_.message, HasSubstr("was it freed before?"));
}

TEST_F(CpuPlugin, more_than_the_host_has_is_refused_and_counted) {
  void* memory = &memory;
  EXPECT_EQ(api_.memory_alloc(device_, stats().total_bytes + 1, LF_MEMORY_MAIN, &memory, &err_), LF_E_NOMEM_DEVICE);
  EXPECT_EQ(api_.memory_alloc(device_, UINT64_MAX, LF_MEMORY_MAIN, &memory, &err_), LF_E_NOMEM_DEVICE);
  EXPECT_EQ(stats().n_out_of_memory, 2u);
  EXPECT_EQ(api_.memory_alloc(device_, 10, LF_MEMORY_FAST, &memory, &err_), LF_E_UNSUPPORTED);
}

TEST_F(CpuPlugin, closing_with_memory_in_use_is_refused) {
  void* memory = allocate(10);
  EXPECT_EQ(api_.close(device_, &err_), LF_E_INVALID);
  EXPECT_THAT(err_.message, HasSubstr("1 blocks of 10 bytes"));
  free(memory);
}

TEST_F(CpuPlugin, copies_and_fills_are_done_when_the_call_returns) {
  auto* from = static_cast<unsigned char*>(allocate(256));
  auto* to = static_cast<unsigned char*>(allocate(256));
  for (int i = 0; i < 256; ++i) from[i] = static_cast<unsigned char>(i);
  ASSERT_EQ(api_.copy(device_, to, nullptr, from, 256, nullptr, &err_), LF_OK);
  EXPECT_EQ(std::memcmp(from, to, 256), 0);
  ASSERT_EQ(api_.copy(device_, to + 1, device_, to, 255, nullptr, &err_), LF_OK);  // over itself
  EXPECT_EQ(to[0], 0);
  EXPECT_EQ(to[255], 254);
  ASSERT_EQ(api_.fill(device_, to, 7, 100, nullptr, &err_), LF_OK);
  EXPECT_EQ(to[99], 7);
  EXPECT_EQ(to[100], 99);
  EXPECT_EQ(api_.copy(device_, nullptr, device_, from, 1, nullptr, &err_), LF_E_INVALID);
  free(from);
  free(to);
}

TEST_F(CpuPlugin, events_tell_the_time_between_them) {
  lf_event first = nullptr, second = nullptr, untimed = nullptr;
  ASSERT_EQ(api_.event_new(device_, LF_DEVICE_EVENT_TIMING, &first, &err_), LF_OK);
  ASSERT_EQ(api_.event_new(device_, LF_DEVICE_EVENT_TIMING, &second, &err_), LF_OK);
  ASSERT_EQ(api_.event_new(device_, 0, &untimed, &err_), LF_OK);
  double ms = -1;
  EXPECT_EQ(api_.event_milliseconds(first, second, &ms, &err_), LF_E_NOT_READY);
  lf_stream stream = nullptr;
  ASSERT_EQ(api_.stream_new(device_, 0, &stream, &err_), LF_OK);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(api_.event_record(first, stream, &err_), LF_OK);
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(3)) {
  }
  ASSERT_EQ(api_.event_record(second, stream, &err_), LF_OK);
  const std::chrono::duration<double, std::milli> outer = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(api_.event_milliseconds(first, second, &ms, &err_), LF_OK);
  EXPECT_GT(ms, 0);
  EXPECT_LE(ms, outer.count());
  int32_t done = 0;
  EXPECT_EQ(api_.event_query(second, &done, &err_), LF_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(api_.event_record(untimed, stream, &err_), LF_OK);
  EXPECT_EQ(api_.event_milliseconds(first, untimed, &ms, &err_), LF_E_INVALID);
  EXPECT_EQ(api_.stream_wait(stream, second, &err_), LF_OK);
  EXPECT_EQ(api_.stream_synchronize(stream, &err_), LF_OK);
  for (lf_event event : {first, second, untimed}) EXPECT_EQ(api_.event_free(event, &err_), LF_OK);
  EXPECT_EQ(api_.stream_free(stream, &err_), LF_OK);
}

TEST_F(CpuPlugin, threads_may_allocate_at_the_same_time) {
  constexpr int kThreads = 8, kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      lf_err err = sdk::make_err();
      for (int i = 1; i <= kRounds; ++i) {
        void* memory = nullptr;
        ASSERT_EQ(api_.memory_alloc(device_, static_cast<uint64_t>(i), LF_MEMORY_MAIN, &memory, &err), LF_OK);
        ASSERT_EQ(api_.memory_free(device_, memory, &err), LF_OK);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats().allocated_bytes, 0u);
  EXPECT_EQ(stats().n_alloc, static_cast<uint64_t>(kThreads * kRounds));
}

TEST_F(CpuPlugin, null_handles_are_refused) {
  EXPECT_EQ(api_.synchronize(nullptr, &err_), LF_E_INVALID);
  EXPECT_EQ(api_.event_record(nullptr, nullptr, &err_), LF_E_INVALID);
  EXPECT_EQ(api_.info(device_, nullptr, &err_), LF_E_INVALID);
  EXPECT_EQ(api_.stream_synchronize(nullptr, &err_), LF_OK) << "null is the default stream";
}

}  // namespace
}  // namespace lf
