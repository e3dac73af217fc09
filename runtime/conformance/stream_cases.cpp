// Promises of lf/plugin_api/device.h about streams, events and profiler ranges.
#include <algorithm>
#include <cmath>
#include <thread>

#include "conformance/card.h"
#include "conformance/device_case_lists.h"

namespace lf::kit {
namespace {

using Api = lf_device_api;

Answer sync(Card& card, lf_stream stream) { return card.ask<&Api::stream_synchronize>(stream); }
void free_stream(Card& card, lf_stream stream) { card.ask<&Api::stream_free>(stream).must_succeed(); }
Answer record(Card& card, lf_event event, lf_stream stream) { return card.ask<&Api::event_record>(event, stream); }
void free_event(Card& card, lf_event event) { card.ask<&Api::event_free>(event).must_succeed(); }

std::vector<uint8_t> all(uint8_t value, size_t n) { return std::vector<uint8_t>(n, value); }

void streams_are_made_and_freed(Card& card) {
  for (int i = 0; i < 20; ++i) free_stream(card, card.new_stream());
}

void many_streams(Card& card) {
  constexpr uint32_t kMany = 257;
  const uint32_t most = std::min(card.info().max_streams, kMany);
  std::vector<lf_stream> streams;
  for (uint32_t i = 0; i < kMany; ++i) {
    lf_stream stream = nullptr;
    const Answer answer = card.ask<&Api::stream_new>(card.device, 0, &stream);
    answer.may_fail();
    if (!answer.ok()) break;
    streams.push_back(stream);
  }
  expect(streams.size() + 1 >= most, "expected {} streams, as max_streams says, got {}", most, streams.size());
  Block block(card, streams.size() * 64 + 64);
  for (size_t i = 0; i < streams.size(); ++i)
    card.fill(block.at(64 * i), static_cast<uint8_t>(i % 251), 64, streams[i]);
  for (const lf_stream stream : streams) sync(card, stream).must_succeed();
  for (size_t i = 0; i < streams.size(); ++i)
    expect_same(card.download(block.at(64 * i), 64), all(static_cast<uint8_t>(i % 251), 64), "the work of a stream");
  for (const lf_stream stream : streams) free_stream(card, stream);
}

void idle_streams_synchronize(Card& card) {
  const lf_stream stream = card.new_stream();
  sync(card, stream).must_succeed();
  sync(card, stream).must_succeed();
  free_stream(card, stream);
}

void stream_work_is_done_after_sync(Card& card) {
  const lf_stream stream = card.new_stream();
  constexpr size_t kBytes = 1 << 22;
  Block block(card, kBytes);
  for (const uint8_t value : {uint8_t{0}, uint8_t{1}, uint8_t{2}}) card.fill(block.at(), value, kBytes, stream);
  sync(card, stream).must_succeed();
  expect_same(card.download(block.at(), kBytes), all(2, kBytes), "after stream_synchronize");
  free_stream(card, stream);
}

void stream_copies_keep_order(Card& card) {
  const lf_stream stream = card.new_stream();
  constexpr size_t kBytes = 65536;
  Block a(card, kBytes), b(card, kBytes);
  for (int i = 0; i < 50; ++i) {
    card.fill(a.at(), static_cast<uint8_t>(i), kBytes, stream);
    card.ask<&Api::copy>(card.device, b.at(), card.device, static_cast<const void*>(a.at()), uint64_t{kBytes}, stream)
        .must_succeed();
  }
  sync(card, stream).must_succeed();
  expect_same(card.download(b.at(), kBytes), all(49, kBytes), "50 fills and copies on one stream");
  free_stream(card, stream);
}

void host_copies_on_a_stream(Card& card) {
  const lf_stream stream = card.new_stream();
  Block block(card, 8192);
  const auto sent = pattern(8192, 21);
  std::vector<uint8_t> got(8192);
  card.ask<&Api::copy>(card.device, block.at(), lf_device{}, static_cast<const void*>(sent.data()), uint64_t{8192},
                       stream)
      .must_succeed();
  card.ask<&Api::copy>(lf_device{}, static_cast<void*>(got.data()), card.device, static_cast<const void*>(block.at()),
                       uint64_t{8192}, stream)
      .must_succeed();
  sync(card, stream).must_succeed();
  expect_same(got, sent, "to the device and back on one stream");
  free_stream(card, stream);
}

void device_synchronize_waits_for_streams(Card& card) {
  const lf_stream first = card.new_stream(), second = card.new_stream();
  constexpr size_t kBytes = 1 << 20;
  Block a(card, kBytes), b(card, kBytes);
  for (const uint8_t value : {uint8_t{0}, uint8_t{99}, uint8_t{11}}) card.fill(a.at(), value, kBytes, first);
  for (const uint8_t value : {uint8_t{0}, uint8_t{99}, uint8_t{12}}) card.fill(b.at(), value, kBytes, second);
  card.synchronize();
  expect_same(card.download(a.at(), kBytes), all(11, kBytes), "the first stream after synchronize");
  expect_same(card.download(b.at(), kBytes), all(12, kBytes), "the second stream after synchronize");
  free_stream(card, first);
  free_stream(card, second);
}

void stream_freed_with_work(Card& card) {
  constexpr size_t kBytes = 1 << 20;
  Block block(card, kBytes);
  const lf_stream stream = card.new_stream();
  card.fill(block.at(), 77, kBytes, stream);
  free_stream(card, stream);
  card.synchronize();
  expect_same(card.download(block.at(), kBytes), all(77, kBytes), "work of a stream that was freed at once");
}

void native_stream(Card& card) {
  const lf_stream stream = card.new_stream();
  void* native = nullptr;
  card.ask<&Api::stream_native>(stream, &native).must_succeed();
  free_stream(card, stream);
}

void stream_priority(Card& card) {
  lf_stream stream = nullptr;
  const Answer answer = card.ask<&Api::stream_new>(card.device, -1, &stream);
  answer.may_fail();
  expect(answer.ok() || (card.info().abilities & LF_DEVICE_STREAM_PRIORITY) == 0,
         "stream_new with priority -1: expected a stream, as LF_DEVICE_STREAM_PRIORITY is stated, got error {}: {}",
         answer.code, answer.message);
  if (answer.ok()) free_stream(card, stream);
}

void null_stream_free(Card& card) { card.ask<&Api::stream_free>(lf_stream{}).must_fail(); }

void streams_from_another_thread(Card& card) {
  const lf_stream stream = card.new_stream();
  Block block(card, 4096);
  std::string wrong;
  std::thread([&] {
    try {
      card.bind_thread();
      card.fill(block.at(), 5, 4096, stream);
      sync(card, stream).must_succeed();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }).join();
  expect(wrong.empty(), "{}", wrong);
  expect_same(card.download(block.at(), 4096), all(5, 4096), "a stream used from another thread");
  free_stream(card, stream);
}

// ---- events ----

void many_events(Card& card) {
  std::vector<lf_event> events;
  for (int i = 0; i < 500; ++i) events.push_back(card.new_event());
  for (const lf_event event : events) record(card, event, nullptr).must_succeed();
  for (const lf_event event : events) card.ask<&Api::event_synchronize>(event).must_succeed();
  for (const lf_event event : events) free_event(card, event);
}

void unrecorded_event_does_not_hang(Card& card) {
  const lf_event event = card.new_event();
  card.ask<&Api::event_synchronize>(event).may_fail();
  free_event(card, event);
}

void unrecorded_event_is_queried(Card& card) {
  const lf_event event = card.new_event();
  int32_t done = -1;
  const Answer answer = card.ask<&Api::event_query>(event, &done);
  answer.may_fail();
  expect(!answer.ok() || done == 0 || done == 1, "event_query: expected 0 or 1, got {}", done);
  free_event(card, event);
}

// Read by a stream that waits for nothing itself: what the event stands for must be there already.
std::vector<uint8_t> read_beside(Card& card, lf_stream beside, const Block& block, size_t bytes) {
  std::vector<uint8_t> got(bytes);
  card.ask<&Api::copy>(lf_device{}, static_cast<void*>(got.data()), card.device, static_cast<const void*>(block.at()),
                       uint64_t{bytes}, beside)
      .must_succeed();
  sync(card, beside).must_succeed();
  return got;
}

void event_sync_waits(Card& card) {
  const lf_stream stream = card.new_stream(), beside = card.new_stream();
  const lf_event event = card.new_event();
  constexpr size_t kBytes = 1 << 22;
  Block block(card, kBytes);
  for (uint8_t round = 1; round <= 4; ++round) {
    for (const uint8_t value : {uint8_t{0}, uint8_t{99}, round}) card.fill(block.at(), value, kBytes, stream);
    record(card, event, stream).must_succeed();
    card.ask<&Api::event_synchronize>(event).must_succeed();
    expect_same(read_beside(card, beside, block, kBytes), all(round, kBytes), "after event_synchronize");
  }
  free_event(card, event);
  free_stream(card, stream);
  free_stream(card, beside);
}

void done_is_done(Card& card) {
  if ((card.info().abilities & LF_DEVICE_EVENT_QUERY) == 0) throw Skip("LF_DEVICE_EVENT_QUERY is not stated");
  const lf_stream stream = card.new_stream(), beside = card.new_stream();
  const lf_event event = card.new_event();
  constexpr size_t kBytes = 1 << 22;
  Block block(card, kBytes);
  for (uint8_t round = 1; round <= 4; ++round) {
    for (const uint8_t value : {uint8_t{0}, uint8_t{99}, round}) card.fill(block.at(), value, kBytes, stream);
    record(card, event, stream).must_succeed();
    for (int32_t done = 0; done == 0;) card.ask<&Api::event_query>(event, &done).must_succeed();
    expect_same(read_beside(card, beside, block, kBytes), all(round, kBytes), "after event_query said that it is done");
  }
  free_event(card, event);
  free_stream(card, stream);
  free_stream(card, beside);
}

void query_is_true_after_sync(Card& card) {
  const lf_event event = card.new_event();
  record(card, event, nullptr).must_succeed();
  card.ask<&Api::event_synchronize>(event).must_succeed();
  int32_t done = -1;
  card.ask<&Api::event_query>(event, &done).must_succeed();
  expect(done == 1, "event_query after event_synchronize: expected 1, got {}", done);
  free_event(card, event);
}

void wait_orders_streams(Card& card) {
  const lf_stream first = card.new_stream(), second = card.new_stream();
  const lf_event event = card.new_event();
  constexpr size_t kBytes = 1 << 22;
  Block a(card, kBytes), b(card, kBytes);
  for (int round = 1; round <= 8; ++round) {  // an event may be recorded again
    for (const int value : {0, 99, round}) card.fill(a.at(), static_cast<uint8_t>(value), kBytes, first);
    record(card, event, first).must_succeed();
    card.ask<&Api::stream_wait>(second, event).must_succeed();
    card.ask<&Api::copy>(card.device, b.at(), card.device, static_cast<const void*>(a.at()), uint64_t{kBytes}, second)
        .must_succeed();
    sync(card, second).must_succeed();
    expect_same(card.download(b.at(), kBytes), all(static_cast<uint8_t>(round), kBytes), "a copy behind stream_wait");
  }
  free_event(card, event);
  free_stream(card, first);
  free_stream(card, second);
}

void event_freed_while_pending(Card& card) {
  const lf_stream stream = card.new_stream();
  const lf_event event = card.new_event();
  Block block(card, 1 << 22);
  card.fill(block.at(), 1, 1 << 22, stream);
  record(card, event, stream).must_succeed();
  free_event(card, event);
  sync(card, stream).must_succeed();
  free_stream(card, stream);
}

void timing_is_not_negative(Card& card) {
  if ((card.info().abilities & LF_DEVICE_EVENT_TIMING) == 0) throw Skip("LF_DEVICE_EVENT_TIMING is not stated");
  const lf_event from = card.new_event(LF_DEVICE_EVENT_TIMING), to = card.new_event(LF_DEVICE_EVENT_TIMING);
  Block block(card, 1 << 20);
  record(card, from, nullptr).must_succeed();
  card.fill(block.at(), 1, 1 << 20);
  record(card, to, nullptr).must_succeed();
  card.ask<&Api::event_synchronize>(to).must_succeed();
  double milliseconds = -1;
  card.ask<&Api::event_milliseconds>(from, to, &milliseconds).must_succeed();
  expect(std::isfinite(milliseconds) && milliseconds >= 0, "event_milliseconds: expected a time, got {}", milliseconds);
  free_event(card, from);
  free_event(card, to);
}

void timing_of_unrecorded_events_is_refused(Card& card) {
  if ((card.info().abilities & LF_DEVICE_EVENT_TIMING) == 0) throw Skip("LF_DEVICE_EVENT_TIMING is not stated");
  const lf_event from = card.new_event(LF_DEVICE_EVENT_TIMING), to = card.new_event(LF_DEVICE_EVENT_TIMING);
  double milliseconds = 0;
  card.ask<&Api::event_milliseconds>(from, to, &milliseconds).must_fail();
  free_event(card, from);
  free_event(card, to);
}

void null_events_are_refused(Card& card) {
  card.ask<&Api::event_free>(lf_event{}).must_fail();
  card.ask<&Api::event_record>(lf_event{}, lf_stream{}).must_fail();
  card.ask<&Api::event_synchronize>(lf_event{}).must_fail();
}

void ranges_nest(Card& card) {
  card.ask<&Api::range_push>(card.device, sdk::str("outer")).must_succeed();
  card.ask<&Api::range_push>(card.device, sdk::str("inner")).must_succeed();
  card.ask<&Api::range_pop>(card.device).must_succeed();
  card.ask<&Api::range_pop>(card.device).must_succeed();
}

}  // namespace

std::vector<Case> stream_cases() {
  const std::pair<const char*, void (*)(Card&)> all_of_them[] = {
      {"streams_are_made_and_freed", streams_are_made_and_freed},
      {"257_streams_work_or_max_streams_says_less", many_streams},
      {"an_idle_stream_synchronizes", idle_streams_synchronize},
      {"work_on_a_stream_is_done_after_its_synchronize", stream_work_is_done_after_sync},
      {"work_on_a_stream_keeps_its_order", stream_copies_keep_order},
      {"copies_with_the_host_keep_a_streams_order", host_copies_on_a_stream},
      {"synchronize_waits_for_all_streams", device_synchronize_waits_for_streams},
      {"a_stream_may_be_freed_with_work_on_it", stream_freed_with_work},
      {"a_stream_shows_its_native_handle", native_stream},
      {"a_priority_works_where_it_is_stated", stream_priority},
      {"a_null_stream_cannot_be_freed", null_stream_free},
      {"a_stream_may_be_used_from_another_thread", streams_from_another_thread},
      {"500_events_are_recorded_and_waited_for", many_events},
      {"waiting_for_an_unrecorded_event_does_not_hang", unrecorded_event_does_not_hang},
      {"an_unrecorded_event_may_be_queried", unrecorded_event_is_queried},
      {"an_event_waits_for_what_was_before_it", event_sync_waits},
      {"an_event_is_done_after_it_was_waited_for", query_is_true_after_sync},
      {"an_event_that_says_it_is_done_has_its_work_done", done_is_done},
      {"stream_wait_orders_two_streams", wait_orders_streams},
      {"an_event_may_be_freed_while_it_is_pending", event_freed_while_pending},
      {"event_times_are_not_negative", timing_is_not_negative},
      {"times_of_unrecorded_events_are_refused", timing_of_unrecorded_events_is_refused},
      {"null_events_are_refused", null_events_are_refused},
      {"profiler_ranges_nest", ranges_nest},
  };
  std::vector<Case> cases;
  for (const auto& [name, run] : all_of_them)
    cases.push_back({name, [run = run](Bench& b) {
                       Card card(b);
                       run(card);
                     }});
  return cases;
}

}  // namespace lf::kit
