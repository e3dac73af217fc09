// Promises of lf/plugin_api/device.h: the device itself, memory, copies and fills. Streams and events:
// stream_cases.cpp.
#include <algorithm>
#include <cstring>
#include <thread>

#include <nlohmann/json.hpp>

#include "conformance/card.h"
#include "conformance/device_case_lists.h"
#include "core/device_table.h"

namespace lf::kit {
namespace {

using Api = lf_device_api;

uint32_t probed(Bench& b, std::string* reason = nullptr) {
  uint32_t count = 0xFFFFFFFF;
  std::string text;
  b.ask<&Api::probe>(b.table<Api>(LF_DEVICE_INTERFACE), &count, sdk::string_sink(text)).must_succeed();
  if (reason != nullptr) *reason = text;
  return count;
}

// ---- the device ----

void offers_required(Bench& b) {
  const std::string missing = missing_functions(b.table<Api>(LF_DEVICE_INTERFACE));
  expect(missing.empty(), "expected lf_device_api.{}, got null", missing);
}

void streams_come_whole(Bench& b) {
  const auto* api = b.table<Api>(LF_DEVICE_INTERFACE);
  const bool first = b.has<&Api::stream_new>(api);
  expect(first == b.has<&Api::stream_free>(api) && first == b.has<&Api::stream_synchronize>(api),
         "expected stream_new, stream_free and stream_synchronize together, got some of them");
  const bool events = b.has<&Api::event_new>(api);
  expect(events == b.has<&Api::event_free>(api) && events == b.has<&Api::event_record>(api) &&
             events == b.has<&Api::event_synchronize>(api),
         "expected event_new, event_free, event_record and event_synchronize together, got some of them");
}

void probe_answers(Bench& b) {
  b.start();
  std::string reason;
  const uint32_t count = probed(b, &reason);
  expect(count > 0 || !reason.empty(), "lf_device_api.probe: found no device; expected a reason, got none");
  expect(count < 4096, "lf_device_api.probe: expected a number of devices, got {}", count);
  expect(probed(b) == count, "lf_device_api.probe: expected {} devices again, got another number", count);
}

void open_beyond_is_refused(Bench& b) {
  b.start();
  const auto* api = b.table<Api>(LF_DEVICE_INTERFACE);
  lf_device device = nullptr;
  const uint32_t count = probed(b);
  b.ask<&Api::open>(api, count, &device).must_fail({LF_E_NO_DEVICE, LF_E_INVALID});
  b.ask<&Api::open>(api, 0xFFFFFFFFu, &device).must_fail({LF_E_NO_DEVICE, LF_E_INVALID});
}

void open_and_close_many_times(Bench& b) {
  Card card(b);
  for (int i = 0; i < 20; ++i) {
    card.ask<&Api::close>(card.device).must_succeed();
    card.device = nullptr;
    card.ask<&Api::open>(0u, &card.device).must_succeed();
  }
  card.bind_thread();
  Block block(card, 64);
}

void two_opens_do_not_disturb(Bench& b) {
  Card card(b);
  Block block(card, 1024);
  const auto bytes = pattern(1024);
  card.upload(block.at(), bytes);
  lf_device second = nullptr;
  const Answer answer = card.ask<&Api::open>(0u, &second);
  answer.may_fail();
  if (answer.ok()) card.ask<&Api::close>(second).must_succeed();
  card.bind_thread();
  expect_same(card.download(block.at(), 1024), bytes, "memory of the first opening");
}

template <size_t kSize>
bool ends(const char (&text)[kSize]) {
  return std::memchr(text, 0, kSize) != nullptr;
}

void info_is_complete(Bench& b) {
  Card card(b);
  const lf_device_info info = card.info();
  expect(ends(info.name) && ends(info.arch) && ends(info.bus) && ends(info.torch_device),
         "lf_device_info: expected texts that end with a NUL within their arrays");
  expect(info.name[0] != '\0', "lf_device_info.name: expected a name, got none");
  expect(info.memory_bytes > 0, "lf_device_info.memory_bytes: expected a size, got 0");
  expect(info.alignment > 0 && (info.alignment & (info.alignment - 1)) == 0,
         "lf_device_info.alignment: expected a power of two, got {}", info.alignment);
  expect(info.max_streams >= 1, "lf_device_info.max_streams: expected at least the default stream, got 0");
  expect(info.torch_mode >= LF_TORCH_NONE && info.torch_mode <= LF_TORCH_PRIVATE_USE_1,
         "lf_device_info.torch_mode: expected 0 to 3, got {}", info.torch_mode);
  expect(info.torch_mode == LF_TORCH_NONE || info.torch_device[0] != '\0',
         "lf_device_info.torch_device: expected LibTorch's name of the device, got none");
  for (const double peak :
       {info.peak_flops_bf16, info.peak_flops_fp32, info.memory_bytes_per_second, info.link_bytes_per_second})
    expect(peak >= 0 && peak < 1e30, "lf_device_info: expected peaks that are 0 or real, got {}", peak);
}

void info_is_stable(Bench& b) {
  Card card(b);
  const lf_device_info first = card.info(), second = card.info();
  expect(first.uid == second.uid && first.memory_bytes == second.memory_bytes && first.abilities == second.abilities,
         "lf_device_api.info: expected the same answer twice, got two");
}

void abilities_have_their_functions(Bench& b) {
  Card card(b);
  const uint64_t stated = card.info().abilities;
  const std::tuple<uint64_t, const char*, bool> promises[] = {
      {LF_DEVICE_EVENT_QUERY, "event_query", card.has<&Api::event_query>()},
      {LF_DEVICE_EVENT_TIMING, "event_milliseconds", card.has<&Api::event_milliseconds>()},
      {LF_DEVICE_STREAM_PRIORITY, "stream_new", card.has<&Api::stream_new>()},
  };
  for (const auto& [bit, name, there] : promises)
    expect((stated & bit) == 0 || there, "abilities state {:#x}; expected lf_device_api.{}, got null", bit, name);
}

// A host of an older ABI knows less of the struct: what lies behind its end is not ours to write.
template <typename T, auto kFunction>
void older_caller_is_not_overrun(Bench& b) {
  Card card(b);
  struct {
    T value;
    uint8_t behind[64];
  } memory;
  std::memset(&memory, 0xA5, sizeof memory);
  constexpr uint32_t kKnown = sizeof(lf_hdr) + 16;
  std::memset(&memory.value, 0, kKnown);
  memory.value.h = lf_hdr{kKnown, LF_ABI_MAJOR, LF_ABI_MINOR};
  card.ask<kFunction>(card.device, &memory.value).must_succeed();
  const auto* bytes = reinterpret_cast<const uint8_t*>(&memory);
  for (size_t i = kKnown; i < sizeof memory; ++i)
    expect(bytes[i] == 0xA5, "expected {} bytes written at most, as h.size says; byte {} was written too", kKnown, i);
}

// A host of a newer ABI knows more: its members stay zero, and its size stays what it was.
template <typename T, auto kFunction>
void newer_caller_keeps_its_members(Bench& b) {
  Card card(b);
  struct Newer {
    T known;
    uint64_t member;
  } memory{};
  memory.known.h = lf_hdr{sizeof memory, LF_ABI_MAJOR, LF_ABI_MINOR};
  card.ask<kFunction>(card.device, &memory.known).must_succeed();
  expect(memory.member == 0, "expected a member of the future left at 0, got {}", memory.member);
}

void another_thread_may_work(Bench& b) {
  Card card(b);
  Block block(card, 4096);
  const auto bytes = pattern(4096);
  std::string wrong;
  std::thread([&] {
    try {
      card.bind_thread();
      card.upload(block.at(), bytes);
      expect(card.info().memory_bytes > 0, "info on another thread: expected a size, got 0");
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }).join();
  expect(wrong.empty(), "{}", wrong);
  expect_same(card.download(block.at(), 4096), bytes, "what another thread wrote");
}

void health_is_json(Bench& b) {
  Card card(b);
  std::string text;
  card.ask<&Api::health>(card.device, sdk::string_sink(text)).must_succeed();
  expect(nlohmann::json::accept(text), "lf_device_api.health: expected JSON, got {}", text);
}

void null_device_is_refused(Bench& b) {
  Card card(b);
  const lf_device none = nullptr;
  auto info = sdk::with_header<lf_device_info>();
  auto stats = sdk::with_header<lf_memory_stats>();
  void* memory = nullptr;
  card.ask<&Api::info>(none, &info).must_fail();
  card.ask<&Api::memory_stats>(none, &stats).must_fail();
  card.ask<&Api::memory_alloc>(none, uint64_t{64}, int32_t{LF_MEMORY_MAIN}, &memory).must_fail();
  card.ask<&Api::synchronize>(none).must_fail();
  card.ask<&Api::bind_thread>(none).must_fail();
  card.ask<&Api::close>(none).must_fail();
}

// ---- memory ----

Answer allocate(Card& card, uint64_t bytes, int32_t kind, void** out) {
  return card.ask<&Api::memory_alloc>(card.device, bytes, kind, out);
}
Answer release(Card& card, void* memory) { return card.ask<&Api::memory_free>(card.device, memory); }

void allocates(Card& card, uint64_t bytes) {
  void* memory = nullptr;
  allocate(card, bytes, LF_MEMORY_MAIN, &memory).must_succeed();
  expect(memory != nullptr, "memory_alloc: expected {} bytes, got null", bytes);
  const uint32_t alignment = card.info().alignment;
  expect(reinterpret_cast<uintptr_t>(memory) % alignment == 0, "memory_alloc: expected alignment {}, got {}", alignment,
         memory);
  card.fill(memory, 0x5A, bytes);
  const auto last = card.download(static_cast<char*>(memory) + bytes - 1, 1);
  expect(last[0] == 0x5A, "the last of {} bytes: expected what was filled in, got {:#x}", bytes, last[0]);
  release(card, memory).must_succeed();
}

void zero_bytes_are_answered(Bench& b) {
  Card card(b);
  void* memory = nullptr;
  const Answer answer = allocate(card, 0, LF_MEMORY_MAIN, &memory);
  answer.may_fail();
  if (answer.ok()) release(card, memory).must_succeed();
}

void free_of_null_is_harmless(Bench& b) {
  Card card(b);
  release(card, nullptr).may_fail();
}

void double_free_is_refused(Bench& b) {
  Card card(b);
  void *first = nullptr, *keeper = nullptr;
  allocate(card, 4096, LF_MEMORY_MAIN, &first).must_succeed();
  allocate(card, 4096, LF_MEMORY_MAIN, &keeper).must_succeed();
  release(card, first).must_succeed();
  release(card, first).must_fail();
  const auto bytes = pattern(4096);
  card.upload(keeper, bytes);
  expect_same(card.download(keeper, 4096), bytes, "memory beside a double free");
  release(card, keeper).must_succeed();
}

void foreign_memory_is_refused(Bench& b) {
  Card card(b);
  int mine = 0;
  release(card, &mine).must_fail();
}

void an_address_inside_a_block_is_refused(Bench& b) {
  Card card(b);
  Block block(card, 4096);
  release(card, block.at(64)).must_fail();
}

void blocks_do_not_overlap(Bench& b) {
  Card card(b);
  constexpr size_t kBlocks = 300, kBytes = 257;
  std::vector<uintptr_t> begins;
  for (size_t i = 0; i < kBlocks; ++i) {
    void* memory = nullptr;
    allocate(card, kBytes, LF_MEMORY_MAIN, &memory).must_succeed();
    begins.push_back(reinterpret_cast<uintptr_t>(memory));
  }
  auto sorted = begins;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < kBlocks; ++i)
    expect(sorted[i] - sorted[i - 1] >= kBytes, "two blocks of {} bytes are {} bytes apart", kBytes,
           sorted[i] - sorted[i - 1]);
  for (const uintptr_t memory : begins) release(card, reinterpret_cast<void*>(memory)).must_succeed();
}

void out_of_memory_is_survived(Card& card, uint64_t bytes) {
  const uint64_t before = card.stats().n_out_of_memory;
  void* memory = nullptr;
  allocate(card, bytes, LF_MEMORY_MAIN, &memory).must_fail({LF_E_NOMEM_DEVICE});
  expect(card.stats().n_out_of_memory > before, "n_out_of_memory: expected more than {} after a refusal", before);
  allocates(card, 4096);
}

void unknown_kind_is_refused(Bench& b) {
  Card card(b);
  void* memory = nullptr;
  allocate(card, 64, 4711, &memory).must_fail({LF_E_UNSUPPORTED, LF_E_INVALID});
}

void kind_works_or_is_refused(Card& card, int32_t kind) {
  void* memory = nullptr;
  const Answer answer = allocate(card, 4096, kind, &memory);
  if (answer.code == LF_E_UNSUPPORTED) throw Skip("memory of that kind is not offered");
  answer.must_succeed();
  if (kind == LF_MEMORY_PINNED_HOST) {  // the host's own to write
    std::memset(memory, 0x3C, 4096);
    Block block(card, 4096);
    card.upload(block.at(), {static_cast<const uint8_t*>(memory), 4096});
    expect_same(card.download(block.at(), 4096), std::vector<uint8_t>(4096, 0x3C), "copied from pinned memory");
  } else {
    card.fill(memory, 7, 4096);
    expect_same(card.download(memory, 4096), std::vector<uint8_t>(4096, 7), "memory of another kind");
  }
  release(card, memory).must_succeed();
}

void stats_follow(Bench& b) {
  Card card(b);
  const lf_memory_stats before = card.stats();
  expect(before.total_bytes > 0 && before.free_bytes <= before.total_bytes,
         "lf_memory_stats: expected free within total, got {} of {}", before.free_bytes, before.total_bytes);
  constexpr uint64_t kBytes = 1 << 20;
  {
    Block block(card, kBytes);
    const lf_memory_stats during = card.stats();
    expect(during.allocated_bytes >= before.allocated_bytes + kBytes,
           "allocated_bytes: expected {} more than {}, got {}", kBytes, before.allocated_bytes, during.allocated_bytes);
    expect(during.peak_bytes >= during.allocated_bytes, "peak_bytes: expected at least {}, got {}",
           during.allocated_bytes, during.peak_bytes);
    expect(during.n_alloc > before.n_alloc, "n_alloc: expected more than {}, got {}", before.n_alloc, during.n_alloc);
  }
  const lf_memory_stats after = card.stats();
  expect(after.allocated_bytes == before.allocated_bytes, "allocated_bytes: expected {} after the free, got {}",
         before.allocated_bytes, after.allocated_bytes);
  expect(after.peak_bytes >= before.allocated_bytes + kBytes, "peak_bytes: expected the peak kept, got {}",
         after.peak_bytes);
}

void threads_allocate_at_once(Bench& b) {
  Card card(b);
  const uint64_t before = card.stats().allocated_bytes;
  std::vector<std::string> wrong(6);
  std::vector<std::thread> threads;
  for (std::string& said : wrong)
    threads.emplace_back([&card, &said] {
      // Not through Bench::ask: its breadcrumb is one for the whole process.
      lf_err err = sdk::make_err();
      card.api->bind_thread(card.device, &err);
      for (int i = 0; i < 100 && said.empty(); ++i) {
        void* memory = nullptr;
        if (card.api->memory_alloc(card.device, 64 + 64 * static_cast<uint64_t>(i), LF_MEMORY_MAIN, &memory, &err) !=
                LF_OK ||
            card.api->memory_free(card.device, memory, &err) != LF_OK)
          said = err.message;
      }
    });
  card.bench.crumb().enter("lf_device_api.memory_alloc on 6 threads");
  for (std::thread& thread : threads) thread.join();
  card.bench.crumb().leave();
  for (const std::string& said : wrong) expect(said.empty(), "memory from 6 threads at once: {}", said);
  expect(card.stats().allocated_bytes == before, "allocated_bytes: expected {} after all threads freed, got {}", before,
         card.stats().allocated_bytes);
}

// ---- copies and fills ----

void round_trip(Card& card, uint64_t bytes) {
  Block block(card, std::max<uint64_t>(bytes, 1));
  const auto sent = pattern(bytes);
  card.upload(block.at(), sent);
  expect_same(card.download(block.at(), bytes), sent, "copied to the device and back");
}

void within_device(Card& card, uint64_t bytes) {
  Block from(card, bytes), to(card, bytes);
  const auto sent = pattern(bytes, 7);
  card.upload(from.at(), sent);
  card.ask<&Api::copy>(card.device, to.at(), card.device, static_cast<const void*>(from.at()), bytes, lf_stream{})
      .must_succeed();
  expect_same(card.download(to.at(), bytes), sent, "copied within the device");
  expect_same(card.download(from.at(), bytes), sent, "the source of a copy");
}

void odd_offsets(Bench& b) {
  Card card(b);
  Block block(card, 300);
  auto whole = pattern(300);
  card.upload(block.at(), whole);
  const auto piece = pattern(101, 9);
  card.upload(block.at(37), piece);
  std::copy(piece.begin(), piece.end(), whole.begin() + 37);
  expect_same(card.download(block.at(), 300), whole, "a copy to an odd offset");
  expect_same(card.download(block.at(37), 101), piece, "a copy from an odd offset");
}

void many_copies_in_order(Bench& b) {
  Card card(b);
  Block a(card, 4096), c(card, 4096);
  const auto sent = pattern(4096, 3);
  card.upload(a.at(), sent);
  for (int i = 0; i < 100; ++i) {
    void *to = i % 2 == 0 ? c.at() : a.at(), *from = i % 2 == 0 ? a.at() : c.at();
    card.ask<&Api::copy>(card.device, to, card.device, static_cast<const void*>(from), uint64_t{4096}, lf_stream{})
        .must_succeed();
    card.fill(from, static_cast<uint8_t>(i), 4096);
  }
  card.synchronize();
  expect_same(card.download(a.at(), 4096), sent, "100 copies and fills behind one another");
}

void null_copies(Bench& b) {
  Card card(b);
  Block block(card, 64);
  uint8_t host[64] = {};
  const void* const nothing = nullptr;
  card.ask<&Api::copy>(card.device, static_cast<void*>(nullptr), lf_device{}, static_cast<const void*>(host),
                       uint64_t{64}, lf_stream{})
      .must_fail();
  card.ask<&Api::copy>(lf_device{}, static_cast<void*>(host), card.device, nothing, uint64_t{64}, lf_stream{})
      .must_fail();
  card.ask<&Api::fill>(card.device, static_cast<void*>(nullptr), uint8_t{1}, uint64_t{64}, lf_stream{}).must_fail();
}

void empty_copies(Bench& b) {
  Card card(b);
  Block block(card, 64);
  uint8_t host[1] = {42};
  card.ask<&Api::copy>(lf_device{}, static_cast<void*>(host), card.device, static_cast<const void*>(block.at()),
                       uint64_t{0}, lf_stream{})
      .must_succeed();
  card.ask<&Api::fill>(card.device, block.at(), uint8_t{1}, uint64_t{0}, lf_stream{}).must_succeed();
  expect(host[0] == 42, "a copy of 0 bytes: expected nothing written, got {}", host[0]);
}

void fills(Card& card, uint8_t value, uint64_t bytes) {
  Block block(card, bytes + 128);
  auto wanted = pattern(bytes + 128);
  card.upload(block.at(), wanted);
  card.fill(block.at(64), value, bytes);
  card.synchronize();
  std::fill(wanted.begin() + 64, wanted.begin() + 64 + static_cast<int64_t>(bytes), value);
  expect_same(card.download(block.at(), bytes + 128), wanted, "a fill and what lies beside it");
}

void works_after_errors(Bench& b) {
  Card card(b);
  for (int i = 0; i < 10; ++i) {  // vendors' errors may stick
    void* memory = nullptr;
    allocate(card, uint64_t{1} << 62, LF_MEMORY_MAIN, &memory).must_fail();
    allocate(card, 64, 4711, &memory).must_fail();
  }
  round_trip(card, 4096);
}

}  // namespace

std::vector<Case> device_cases() {
  std::vector<Case> cases = {
      {"required_functions_are_there", offers_required},
      {"streams_and_events_come_whole_or_not_at_all", streams_come_whole},
      {"probe_answers_the_same_twice_and_says_why_there_is_none", probe_answers},
      {"an_ordinal_beyond_the_last_is_refused", open_beyond_is_refused},
      {"open_and_close_work_many_times", open_and_close_many_times},
      {"a_second_opening_does_not_disturb_the_first", two_opens_do_not_disturb},
      {"info_is_complete", info_is_complete},
      {"info_is_the_same_twice", info_is_stable},
      {"every_stated_ability_has_its_function", abilities_have_their_functions},
      {"info_writes_no_more_than_an_older_host_knows", older_caller_is_not_overrun<lf_device_info, &Api::info>},
      {"info_leaves_members_of_a_newer_host_alone", newer_caller_keeps_its_members<lf_device_info, &Api::info>},
      {"memory_stats_write_no_more_than_an_older_host_knows",
       older_caller_is_not_overrun<lf_memory_stats, &Api::memory_stats>},
      {"memory_stats_leave_members_of_a_newer_host_alone",
       newer_caller_keeps_its_members<lf_memory_stats, &Api::memory_stats>},
      {"another_thread_may_work_after_bind_thread", another_thread_may_work},
      {"health_is_json", health_is_json},
      {"a_null_device_is_refused", null_device_is_refused},
      {"an_allocation_of_0_bytes_is_answered", zero_bytes_are_answered},
      {"a_free_of_null_is_harmless", free_of_null_is_harmless},
      {"a_double_free_is_refused", double_free_is_refused},
      {"a_free_of_foreign_memory_is_refused", foreign_memory_is_refused},
      {"a_free_inside_a_block_is_refused", an_address_inside_a_block_is_refused},
      {"blocks_do_not_overlap", blocks_do_not_overlap},
      {"an_unknown_kind_of_memory_is_refused", unknown_kind_is_refused},
      {"memory_stats_follow_allocations", stats_follow},
      {"threads_may_allocate_at_once", threads_allocate_at_once},
      {"copies_at_odd_offsets_touch_nothing_else", odd_offsets},
      {"copies_and_fills_happen_in_order", many_copies_in_order},
      {"null_memory_is_refused", null_copies},
      {"copies_and_fills_of_0_bytes_do_nothing", empty_copies},
      {"work_goes_on_after_errors", works_after_errors},
  };
  const auto with_card = [&](std::string name, std::function<void(Card&)> run) {
    cases.push_back({std::move(name), [run = std::move(run)](Bench& b) {
                       Card card(b);
                       run(card);
                     }});
  };
  for (const uint64_t bytes : {1u, 3u, 64u, 4096u, 1048577u, 1u << 26})
    with_card(fmt::format("{}_bytes_are_allocated_aligned_and_whole", bytes), [=](Card& c) { allocates(c, bytes); });
  for (const int shift : {62, 50})
    with_card(fmt::format("2_to_the_{}_bytes_are_out_of_memory_and_then_it_goes_on", shift),
              [=](Card& c) { out_of_memory_is_survived(c, uint64_t{1} << shift); });
  with_card("all_bits_of_a_size_are_out_of_memory_and_then_it_goes_on",
            [](Card& c) { out_of_memory_is_survived(c, ~uint64_t{0}); });
  with_card("pinned_host_memory_is_the_hosts_to_write",
            [](Card& c) { kind_works_or_is_refused(c, LF_MEMORY_PINNED_HOST); });
  with_card("fast_memory_works", [](Card& c) { kind_works_or_is_refused(c, LF_MEMORY_FAST); });
  for (const uint64_t bytes : {0u, 1u, 2u, 3u, 63u, 64u, 65u, 4095u, 4096u, 1048579u})
    with_card(fmt::format("{}_bytes_come_back_as_they_went", bytes), [=](Card& c) { round_trip(c, bytes); });
  for (const uint64_t bytes : {1u, 65u, 4096u, 1048579u})
    with_card(fmt::format("{}_bytes_are_copied_within_the_device", bytes), [=](Card& c) { within_device(c, bytes); });
  for (const uint64_t bytes : {1u, 7u, 4096u, 1000003u})
    for (const int value : {0, 0x7F, 0xFF})
      with_card(fmt::format("{}_bytes_are_filled_with_{}_and_no_neighbour", bytes, value),
                [=](Card& c) { fills(c, static_cast<uint8_t>(value), bytes); });
  for (Case& one : stream_cases()) cases.push_back(std::move(one));
  return cases;
}

}  // namespace lf::kit
