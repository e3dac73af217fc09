// The device interface over the simulated runtime: what is asked of any device, and the traps of this vendor's.
#include <chrono>
#include <numeric>
#include <thread>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "opened.h"

namespace lf::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A different byte at every place, for any length.
std::vector<uint8_t> pattern(size_t n, uint32_t seed = 1) {
  std::vector<uint8_t> bytes(n);
  for (auto& byte : bytes) byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

void on_simulator(const Environment& more, const std::function<void(Opened&)>& body,
                  const std::string& kind = "plain") {
  Environment environment{{"LF_KUNLUN_HOME", home(kind)}};
  environment.insert(more.begin(), more.end());
  run_alone(environment, [&] {
    Opened plugin;
    body(plugin);
  });
}

TEST(KunlunProbe, a_home_without_the_libraries_is_no_device_and_the_reason_names_it) {
  run_alone({{"LF_KUNLUN_HOME", "/nowhere/kunlun"}}, [] {
    Opened plugin;
    EXPECT_THAT(plugin.reason(), AllOf(HasSubstr("LF_KUNLUN_HOME"), HasSubstr("/nowhere/kunlun")));
    lf_device device = nullptr;
    EXPECT_EQ(plugin.device().open(0, &device, &plugin.err), LF_E_NO_DEVICE);
  });
}

TEST(KunlunProbe, without_a_home_the_usual_places_are_searched_and_named) {
  run_alone({}, [] {
    unsetenv("LF_KUNLUN_HOME");
    Opened plugin;
    EXPECT_THAT(plugin.reason(),
                AllOf(HasSubstr("/usr/local/xpu"), HasSubstr("/opt/xre"), HasSubstr("LF_KUNLUN_HOME")));
  });
}

TEST(KunlunProbe, an_empty_mask_is_no_device_and_the_reason_shows_the_mask) {
  on_simulator({{"XPU_VISIBLE_DEVICES", ""}}, [](Opened& plugin) {
    EXPECT_THAT(plugin.reason(), AllOf(HasSubstr("no device"), HasSubstr("XPU_VISIBLE_DEVICES is \"\"")));
  });
}

TEST(KunlunProbe, a_driver_that_never_answers_is_given_up_on) {
  on_simulator({{"LF_SIM_XPU_FAIL", "xpu_device_count@1=hang"}, {"LF_KUNLUN_PROBE_TIMEOUT_MS", "200"}},
               [](Opened& plugin) {
                 const auto start = Clock::now();
                 EXPECT_THAT(plugin.reason(), HasSubstr("did not answer within 200 ms"));
                 EXPECT_LT(milliseconds_since(start), 5000);
               });
}

TEST(KunlunProbe, a_limit_that_is_no_number_of_milliseconds_is_refused_with_what_it_is) {
  for (const char* wrong : {"soon", "0", "-5", "10s"})
    on_simulator({{"LF_KUNLUN_PROBE_TIMEOUT_MS", wrong}}, [&](Opened& plugin) {
      uint32_t count = 0;
      std::string why;
      EXPECT_EQ(plugin.device().probe(&count, sdk::string_sink(why), &plugin.err), LF_E_INVALID);
      EXPECT_EQ(plugin.message(),
                "LF_KUNLUN_PROBE_TIMEOUT_MS: expected milliseconds from 1 on, got \"" + std::string(wrong) + "\"");
    });
}

TEST(KunlunProbe, an_empty_home_is_none) {
  run_alone({{"LF_KUNLUN_HOME", ""}}, [] {
    Opened plugin;
    EXPECT_THAT(plugin.reason(), AllOf(HasSubstr("no libxpurt.so under /usr/local/xpu"), HasSubstr("/opt/xre")));
  });
}

// Which the vendor's manual requires on KL3.
TEST(KunlunProbe, events_of_kl3_are_enabled_unless_the_user_says_otherwise) {
  on_simulator({}, [](Opened& plugin) {
    plugin.open();
    EXPECT_STREQ(getenv("XPU_EVENT_KL3_ENABLE"), "1");
  });
  on_simulator({{"XPU_EVENT_KL3_ENABLE", "0"}}, [](Opened& plugin) {
    plugin.open();
    EXPECT_STREQ(getenv("XPU_EVENT_KL3_ENABLE"), "0");
  });
}

TEST(KunlunDevice, collectives_are_beside_compute_where_the_variable_is_1_and_a_word_is_refused) {
  for (const auto& [text, stated] : {std::pair("0", false), std::pair("", false), std::pair("1", true)})
    on_simulator({{"LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE", text}}, [&](Opened& plugin) {
      EXPECT_EQ((plugin.info(plugin.open()).abilities & LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE) != 0, stated) << text;
    });
  on_simulator({{"LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE", "yes"}}, [](Opened& plugin) {
    auto info = sdk::with_header<lf_device_info>();
    EXPECT_EQ(plugin.device().info(plugin.open(), &info, &plugin.err), LF_E_INVALID);
    EXPECT_THAT(plugin.message(), HasSubstr("expected 0 or 1, got \"yes\""));
  });
}

TEST(KunlunProbe, a_second_installation_in_the_process_is_refused_and_both_are_named) {
  on_simulator({}, [](Opened& plugin) {
    ASSERT_NE(dlopen((home("bare") + "/libxpurt.so").c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    EXPECT_THAT(plugin.reason(), AllOf(HasSubstr("plain/libxpurt.so"), HasSubstr("bare/libxpurt.so")));
  });
}

TEST(KunlunDevice, the_simulator_is_told_apart_from_a_card) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device_info info = plugin.info(plugin.open());
    EXPECT_TRUE(info.abilities & LF_DEVICE_SIMULATED);
    EXPECT_THAT(info.name, HasSubstr("SIMULATED"));
    EXPECT_THAT(plugin.log(), HasSubstr("SIMULATED"));
  });
}

TEST(KunlunDevice, cards_have_their_own_address_though_a_build_ignores_the_device_asked_for) {
  on_simulator({{"LF_SIM_XPU_COUNT", "3"}, {"LF_SIM_XPU_QUIRKS", "attr_ignores_device,device_list_writes_nothing"}},
               [](Opened& plugin) {
                 EXPECT_STREQ(plugin.info(plugin.open(0)).bus, "0001:10:02.0");
                 EXPECT_STREQ(plugin.info(plugin.open(2)).bus, "0001:12:02.0");
                 EXPECT_NE(plugin.info(plugin.open(1)).uid, plugin.info(plugin.open(2)).uid);
               });
}

TEST(KunlunDevice, an_ordinal_beyond_the_last_card_is_refused) {
  on_simulator({{"LF_SIM_XPU_COUNT", "2"}}, [](Opened& plugin) {
    lf_device device = nullptr;
    EXPECT_EQ(plugin.device().open(2, &device, &plugin.err), LF_E_NO_DEVICE);
    EXPECT_THAT(plugin.message(), HasSubstr("sees 2"));
  });
}

TEST(KunlunDevice, an_older_host_gets_no_more_than_it_knows) {
  on_simulator({}, [](Opened& plugin) {
    auto info = sdk::with_header<lf_device_info>();
    info.h.size = offsetof(lf_device_info, torch_mode);
    info.torch_mode = 77;
    plugin.ok(plugin.device().info(plugin.open(), &info, &plugin.err));
    EXPECT_EQ(info.torch_mode, 77);
    EXPECT_GT(info.memory_bytes, 0U);
  });
}

TEST(KunlunMemory, the_host_faults_when_it_touches_device_memory) {
  const auto ends = run_ranks(1, {{"LF_KUNLUN_HOME", home("plain")}}, [](const Rank&) {
    Opened plugin;
    *static_cast<volatile char*>(plugin.allocate(plugin.open(), 4096)) = 1;
  });
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_NE(ends.front(), 0);  // the sanitizer reports it and exits
#else
  EXPECT_EQ(ends.front(), 128 + SIGSEGV);
#endif
}

TEST(KunlunMemory, bytes_survive_the_way_to_the_device_and_back_at_any_offset) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    for (const size_t n : {1, 3, 255, 4097, 1 << 20}) {
      const auto sent = pattern(n + 7);
      auto* memory = static_cast<uint8_t*>(plugin.upload(device, sent));
      auto* other = static_cast<uint8_t*>(plugin.allocate(device, n));
      plugin.ok(plugin.device().copy(device, other, device, memory + 7, n, nullptr, &plugin.err));
      EXPECT_EQ(plugin.download<uint8_t>(device, other, n), std::vector<uint8_t>(sent.begin() + 7, sent.end())) << n;
    }
  });
}

TEST(KunlunMemory, a_fill_sets_exactly_the_bytes_it_was_given) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    for (const size_t n : {0, 1, 65535, 65536, 65537, 200'001, 5 << 20})
      for (const int value : {0, 1, 0xFF}) {
        auto expected = pattern(n + 32);
        auto* memory = static_cast<uint8_t*>(plugin.upload(device, expected));
        plugin.ok(plugin.device().fill(device, memory + 16, static_cast<uint8_t>(value), n, nullptr, &plugin.err));
        std::fill_n(expected.begin() + 16, n, static_cast<uint8_t>(value));
        EXPECT_TRUE(plugin.download<uint8_t>(device, memory, n + 32) == expected) << n << " bytes of " << value;
        plugin.ok(plugin.device().memory_free(device, memory, &plugin.err));
      }
  });
}

TEST(KunlunMemory, memory_moves_between_cards) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    ASSERT_TRUE(plugin.info(first).abilities & LF_DEVICE_PEER_COPY);
    const auto sent = pattern(100'000);
    void* there = plugin.allocate(second, sent.size());
    plugin.ok(
        plugin.device().copy(second, there, first, plugin.upload(first, sent), sent.size(), nullptr, &plugin.err));
    EXPECT_EQ(plugin.download<uint8_t>(second, there, sent.size()), sent);
  });
}

TEST(KunlunMemory, running_out_is_told_counted_and_survived) {
  on_simulator({{"LF_SIM_XPU_MEM", "1048576"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    void* half = plugin.allocate(device, 600'000);
    void* more = nullptr;
    EXPECT_EQ(plugin.device().memory_alloc(device, 600'000, LF_MEMORY_MAIN, &more, &plugin.err), LF_E_NOMEM_DEVICE);
    EXPECT_THAT(plugin.message(), AllOf(HasSubstr("600000 bytes"), HasSubstr("kunlun:0")));
    EXPECT_EQ(plugin.err.native, -705);
    EXPECT_EQ(plugin.stats(device).n_out_of_memory, 1U);
    plugin.ok(plugin.device().memory_free(device, half, &plugin.err));
    plugin.allocate(device, 1'000'000);
  });
}

TEST(KunlunMemory, fast_memory_is_small_and_apart) {
  on_simulator({{"LF_SIM_XPU_L3", "65536"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    EXPECT_EQ(plugin.info(device).fast_memory_bytes, 65536U);
    plugin.allocate(device, 60'000, LF_MEMORY_FAST);
    void* more = nullptr;
    EXPECT_EQ(plugin.device().memory_alloc(device, 60'000, LF_MEMORY_FAST, &more, &plugin.err), LF_E_NOMEM_DEVICE);
    EXPECT_THAT(plugin.message(), HasSubstr("L3"));
    plugin.allocate(device, 60'000, LF_MEMORY_MAIN);
  });
}

TEST(KunlunMemory, statistics_are_of_the_right_card_under_a_mask) {
  // The management library counts from the last card down and ignores the mask.
  on_simulator({{"LF_SIM_XPU_COUNT", "4"}, {"XPU_VISIBLE_DEVICES", "1,2"}, {"LF_SIM_XPU_MEM", "1048576"}},
               [](Opened& plugin) {
                 const lf_device first = plugin.open(0), second = plugin.open(1);
                 plugin.allocate(first, 4096);
                 plugin.allocate(second, 8192);
                 void* gone = plugin.allocate(second, 100'000);
                 plugin.ok(plugin.device().memory_free(second, gone, &plugin.err));
                 EXPECT_TRUE(plugin.info(first).abilities & LF_DEVICE_MEMORY_INFO);
                 EXPECT_EQ(plugin.stats(first).free_bytes, 1048576U - 4096);
                 EXPECT_EQ(plugin.stats(second).free_bytes, 1048576U - 8192);
                 EXPECT_EQ(plugin.stats(second).allocated_bytes, 8192U);
                 EXPECT_EQ(plugin.stats(second).peak_bytes, 108'192U);
                 EXPECT_EQ(plugin.stats(second).n_alloc, 2U);
               });
}

TEST(KunlunMemory, without_the_management_library_free_memory_is_not_claimed) {
  on_simulator(
      {},
      [](Opened& plugin) {
        const lf_device device = plugin.open();
        EXPECT_FALSE(plugin.info(device).abilities & LF_DEVICE_MEMORY_INFO);
        EXPECT_EQ(plugin.stats(device).free_bytes, 0U);
        EXPECT_GT(plugin.stats(device).total_bytes, 0U);
        EXPECT_THAT(plugin.log(), HasSubstr("libxpuml.so"));
      },
      "bare");
}

TEST(KunlunMemory, what_is_not_ours_or_was_freed_is_refused) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    void* memory = plugin.allocate(device, 64);
    plugin.ok(plugin.device().memory_free(device, memory, &plugin.err));
    EXPECT_EQ(plugin.device().memory_free(device, memory, &plugin.err), LF_E_INVALID);
    EXPECT_THAT(plugin.message(), HasSubstr("freed already"));
    int on_the_stack = 0;
    EXPECT_EQ(plugin.device().memory_free(device, &on_the_stack, &plugin.err), LF_E_INVALID);
    EXPECT_EQ(plugin.device().copy(device, memory, nullptr, &on_the_stack, 4, nullptr, &plugin.err), LF_E_INVALID);
  });
}

TEST(KunlunMemory, freeing_waits_for_copies_under_way) {
  on_simulator({{"LF_SIM_XPU_MBPS", "2"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream stream = plugin.stream(device);
    const auto start = Clock::now();
    void* memory = plugin.upload(device, pattern(1'000'000), stream);  // takes 500 ms
    EXPECT_LT(milliseconds_since(start), 250);
    plugin.ok(plugin.device().memory_free(device, memory, &plugin.err));
    EXPECT_GT(milliseconds_since(start), 450);
  });
}

TEST(KunlunMemory, threads_do_not_disturb_each_other) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        lf_err err = sdk::make_err();
        lf_stream stream = nullptr;
        wrong[t] += plugin.device().stream_new(device, 0, &stream, &err) != LF_OK;
        for (uint32_t round = 0; round < 100; ++round) {
          const auto sent = pattern(1000 + 37 * round, 1000 * t + round);
          std::vector<uint8_t> got(sent.size());
          void* memory = nullptr;
          wrong[t] += plugin.device().memory_alloc(device, sent.size(), LF_MEMORY_MAIN, &memory, &err) != LF_OK;
          wrong[t] += plugin.device().copy(device, memory, nullptr, sent.data(), sent.size(), stream, &err) != LF_OK;
          wrong[t] += plugin.device().copy(nullptr, got.data(), device, memory, got.size(), stream, &err) != LF_OK;
          wrong[t] += plugin.device().stream_synchronize(stream, &err) != LF_OK;
          wrong[t] += plugin.device().memory_free(device, memory, &err) != LF_OK;
          wrong[t] += got != sent;
        }
        wrong[t] += plugin.device().stream_free(stream, &err) != LF_OK;
      });
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(wrong, Each(0));
    EXPECT_EQ(plugin.stats(device).allocated_bytes, 0U);
  });
}

TEST(KunlunStreams, synchronize_waits_for_every_stream_not_only_the_default_one) {
  on_simulator({{"LF_SIM_XPU_MBPS", "10"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const auto sent = pattern(500'000);
    std::vector<std::vector<uint8_t>> got(3, std::vector<uint8_t>(sent.size()));
    void* memory = plugin.upload(device, sent);
    plugin.ok(plugin.device().synchronize(device, &plugin.err));
    for (auto& bytes : got)
      plugin.ok(plugin.device().copy(nullptr, bytes.data(), device, memory, bytes.size(), plugin.stream(device),
                                     &plugin.err));
    plugin.ok(plugin.device().synchronize(device, &plugin.err));
    EXPECT_THAT(got, Each(sent));
  });
}

TEST(KunlunStreams, copies_on_two_streams_overlap_each_other_and_the_host) {
  on_simulator({{"LF_SIM_XPU_MBPS", "4"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    void* first = plugin.allocate(device, 2'000'000);
    void* second = plugin.allocate(device, 2'000'000);
    const auto bytes = pattern(2'000'000);  // 500 ms on each stream
    const auto start = Clock::now();
    for (void* memory : {first, second})
      plugin.ok(plugin.device().copy(device, memory, nullptr, bytes.data(), bytes.size(), plugin.stream(device),
                                     &plugin.err));
    EXPECT_LT(milliseconds_since(start), 250) << "enqueueing waits for nothing";
    plugin.ok(plugin.device().synchronize(device, &plugin.err));
    EXPECT_LT(milliseconds_since(start), 900) << "one after the other takes 1 s";
  });
}

TEST(KunlunStreams, a_stream_that_waits_for_an_event_sees_what_was_written_before_it) {
  on_simulator({{"LF_SIM_XPU_MBPS", "10"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream writer = plugin.stream(device), reader = plugin.stream(device);
    const lf_event written = plugin.event(device);
    const auto sent = pattern(1'000'000);
    std::vector<uint8_t> got(sent.size());
    void* memory = plugin.upload(device, sent, writer);
    plugin.ok(plugin.device().event_record(written, writer, &plugin.err));
    plugin.ok(plugin.device().stream_wait(reader, written, &plugin.err));
    plugin.ok(plugin.device().copy(nullptr, got.data(), device, memory, got.size(), reader, &plugin.err));
    plugin.ok(plugin.device().stream_synchronize(reader, &plugin.err));
    EXPECT_EQ(got, sent);
  });
}

TEST(KunlunStreams, an_event_is_not_done_until_its_stream_came_to_it) {
  on_simulator({{"LF_SIM_XPU_MBPS", "10"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_event event = plugin.event(device);
    int32_t done = 0;
    plugin.ok(plugin.device().event_query(event, &done, &plugin.err));
    EXPECT_EQ(done, 1) << "nothing was recorded, so there is nothing to wait for";
    const lf_stream stream = plugin.stream(device);
    plugin.upload(device, pattern(1'000'000), stream);
    plugin.ok(plugin.device().event_record(event, stream, &plugin.err));
    plugin.ok(plugin.device().event_query(event, &done, &plugin.err));
    EXPECT_EQ(done, 0);
    plugin.ok(plugin.device().event_synchronize(event, &plugin.err));
    plugin.ok(plugin.device().event_query(event, &done, &plugin.err));
    EXPECT_EQ(done, 1);
  });
}

TEST(KunlunStreams, an_older_runtime_without_event_queries_says_so_and_still_waits) {
  on_simulator(
      {{"LF_SIM_XPU_MODEL", "3"}, {"LF_SIM_XPU_MBPS", "10"}},
      [](Opened& plugin) {
        const lf_device device = plugin.open();
        EXPECT_STREQ(plugin.info(device).arch, "KL2");
        EXPECT_FALSE(plugin.info(device).abilities & LF_DEVICE_EVENT_QUERY);
        const lf_event event = plugin.event(device);
        const auto sent = pattern(500'000);
        std::vector<uint8_t> got(sent.size());
        const lf_stream stream = plugin.stream(device);
        void* memory = plugin.upload(device, sent, stream);
        plugin.ok(plugin.device().copy(nullptr, got.data(), device, memory, got.size(), stream, &plugin.err));
        plugin.ok(plugin.device().event_record(event, stream, &plugin.err));
        int32_t done = 0;
        EXPECT_EQ(plugin.device().event_query(event, &done, &plugin.err), LF_E_UNSUPPORTED);
        plugin.ok(plugin.device().event_synchronize(event, &plugin.err));
        EXPECT_EQ(got, sent);
      },
      "kl2");
}

TEST(KunlunStreams, the_257th_stream_is_refused_and_a_freed_one_makes_room) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    std::vector<lf_stream> streams;
    for (int i = 0; i < 256; ++i) streams.push_back(plugin.stream(device));
    lf_stream more = nullptr;
    EXPECT_EQ(plugin.device().stream_new(device, 0, &more, &plugin.err), LF_E_UNSUPPORTED);
    EXPECT_THAT(plugin.message(), HasSubstr("256"));
    plugin.ok(plugin.device().stream_free(streams.back(), &plugin.err));
    plugin.stream(device);
  });
}

TEST(KunlunStreams, handles_that_are_stale_or_foreign_are_refused) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream stream = plugin.stream(device);
    const lf_event event = plugin.event(device);
    plugin.ok(plugin.device().stream_free(stream, &plugin.err));
    plugin.ok(plugin.device().event_free(event, &plugin.err));
    EXPECT_EQ(plugin.device().stream_free(stream, &plugin.err), LF_E_INVALID);
    EXPECT_EQ(plugin.device().event_free(event, &plugin.err), LF_E_INVALID);
    EXPECT_EQ(plugin.device().event_record(event, nullptr, &plugin.err), LF_E_INVALID);
    int nothing = 0;
    EXPECT_EQ(plugin.device().synchronize(reinterpret_cast<lf_device>(&nothing), &plugin.err), LF_E_INVALID);
    plugin.ok(plugin.device().close(device, &plugin.err));
    EXPECT_EQ(plugin.device().close(device, &plugin.err), LF_E_INVALID);
  });
}

TEST(KunlunStreams, the_default_stream_is_ambiguous_with_two_open_devices) {
  on_simulator({}, [](Opened& plugin) {
    plugin.open(0);
    plugin.ok(plugin.device().stream_synchronize(nullptr, &plugin.err));
    plugin.open(1);
    EXPECT_EQ(plugin.device().stream_synchronize(nullptr, &plugin.err), LF_E_INVALID);
  });
}

TEST(KunlunStreams, calls_for_one_card_leave_the_threads_own_card_current) {
  on_simulator({}, [](Opened& plugin) {
    const lf_device first = plugin.open(0), second = plugin.open(1);
    plugin.ok(plugin.device().bind_thread(first, &plugin.err));
    plugin.upload(second, pattern(100), plugin.stream(second));
    plugin.ok(plugin.device().synchronize(second, &plugin.err));
    void* runtime = dlopen((home("plain") + "/libxpurt.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(runtime, nullptr);
    int current = -1;
    reinterpret_cast<int (*)(int*)>(dlsym(runtime, "xpu_current_device"))(&current);
    EXPECT_EQ(current, 0);
    plugin.ok(plugin.device().bind_thread(second, &plugin.err));
    reinterpret_cast<int (*)(int*)>(dlsym(runtime, "xpu_current_device"))(&current);
    EXPECT_EQ(current, 1);
  });
}

struct Fault {
  const char* script;
  int32_t code;
};

class KunlunFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(KunlunFaults, each_becomes_its_code_and_the_call_after_it_works) {
  for (const char* quirks : {"", "positive_codes"})
    on_simulator({{"LF_SIM_XPU_FAIL", GetParam().script}, {"LF_SIM_XPU_QUIRKS", quirks}}, [](Opened& plugin) {
      const lf_device device = plugin.open();
      void* memory = nullptr;
      EXPECT_EQ(plugin.device().memory_alloc(device, 4096, LF_MEMORY_MAIN, &memory, &plugin.err), GetParam().code);
      EXPECT_THAT(plugin.message(), HasSubstr("allocating 4096 bytes"));
      plugin.allocate(device, 4096);
    });
}

INSTANTIATE_TEST_SUITE_P(Codes, KunlunFaults,
                         ::testing::Values(Fault{"xpu_malloc@1=-705", LF_E_NOMEM_DEVICE},
                                           Fault{"xpu_malloc@1=-706", LF_E_NOMEM_HOST},
                                           Fault{"xpu_malloc@1=-707", LF_E_INVALID},
                                           Fault{"xpu_malloc@1=-712", LF_E_UNSUPPORTED},
                                           Fault{"xpu_malloc@1=-800", LF_E_BUG}, Fault{"xpu_malloc@1=-999", LF_E_BUG}),
                         [](const auto& test) { return "code_" + std::string(test.param.script).substr(14); });

TEST(KunlunFaults, a_lost_device_stays_lost_and_every_error_names_the_first_cause) {
  on_simulator({{"LF_SIM_XPU_FAIL", "xpu_wait@2=-715"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream stream = plugin.stream(device);
    void* memory = plugin.allocate(device, 64);
    plugin.ok(plugin.device().synchronize(device, &plugin.err) == LF_E_DEVICE_LOST ? LF_OK : LF_E_BUG);
    EXPECT_THAT(plugin.message(), AllOf(HasSubstr("timeout on the device"), HasSubstr("start the process anew")));
    void* more = nullptr;
    EXPECT_EQ(plugin.device().memory_alloc(device, 64, LF_MEMORY_MAIN, &more, &plugin.err), LF_E_DEVICE_LOST);
    EXPECT_THAT(plugin.message(), HasSubstr("timeout on the device"));
    EXPECT_EQ(plugin.err.native, -715);
    std::string health;
    plugin.ok(plugin.device().health(device, sdk::string_sink(health), &plugin.err));
    EXPECT_THAT(health, AllOf(HasSubstr("\"lost\""), HasSubstr("timeout on the device")));
    // Letting go works, so that the host can end in good order.
    plugin.ok(plugin.device().memory_free(device, memory, &plugin.err));
    plugin.ok(plugin.device().stream_free(stream, &plugin.err));
    plugin.ok(plugin.device().close(device, &plugin.err));
  });
}

TEST(KunlunFaults, an_error_on_a_stream_is_told_to_whoever_waits_for_it) {
  // Late enough to be waited for: once the card is beyond use, its runtime says no more than that.
  on_simulator({{"LF_SIM_XPU_FAIL", "work@2=delay:500,-714"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const lf_stream stream = plugin.stream(device);
    plugin.upload(device, pattern(100), stream);
    plugin.ok(plugin.device().stream_synchronize(stream, &plugin.err));
    plugin.upload(device, pattern(100), stream);
    EXPECT_EQ(plugin.device().stream_synchronize(stream, &plugin.err), LF_E_DEVICE_LOST);
    EXPECT_THAT(plugin.message(), HasSubstr("exception in a kernel"));
  });
}

TEST(KunlunFaults, a_wait_that_is_slow_is_only_slow) {
  on_simulator({{"LF_SIM_XPU_FAIL", "xpu_wait@*=delay:30"}}, [](Opened& plugin) {
    const lf_device device = plugin.open();
    const auto sent = pattern(1000);
    EXPECT_EQ(plugin.download<uint8_t>(device, plugin.upload(device, sent), sent.size()), sent);
  });
}

}  // namespace
}  // namespace lf::testing
