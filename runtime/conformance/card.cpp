#include "conformance/card.h"

namespace lf::kit {

Card::Card(Bench& b, uint32_t ordinal) : bench(b) {
  bench.start();
  api = bench.table<lf_device_api>(LF_DEVICE_INTERFACE);
  uint32_t count = 0;
  std::string reason;
  ask<&lf_device_api::probe>(&count, sdk::string_sink(reason)).must_succeed();
  if (count == 0) throw Skip("no device here: " + reason);
  if (ordinal >= count) throw Skip(fmt::format("needs {} cards, there are {}", ordinal + 1, count));
  ask<&lf_device_api::open>(ordinal, &device).must_succeed();
  expect(device != nullptr, "lf_device_api.open: expected a device, got null");
  bind_thread();
}

// What the case left open is a mess of its own making: the process ends next.
Card::~Card() {
  try {
    if (device != nullptr) ask<&lf_device_api::close>(device);
  } catch (const std::exception&) {
    bench.crumb().leave();
  }
}

lf_device_info Card::info() {
  auto info = sdk::with_header<lf_device_info>();
  ask<&lf_device_api::info>(device, &info).must_succeed();
  return info;
}

lf_memory_stats Card::stats() {
  auto stats = sdk::with_header<lf_memory_stats>();
  ask<&lf_device_api::memory_stats>(device, &stats).must_succeed();
  return stats;
}

void Card::synchronize() { ask<&lf_device_api::synchronize>(device).must_succeed(); }
void Card::bind_thread() { ask<&lf_device_api::bind_thread>(device).must_succeed(); }

void Card::upload(void* to, std::span<const uint8_t> bytes, lf_stream stream) {
  ask<&lf_device_api::copy>(device, to, lf_device{}, static_cast<const void*>(bytes.data()), uint64_t{bytes.size()},
                            stream)
      .must_succeed();
  synchronize();  // the source may be gone after return
}

std::vector<uint8_t> Card::download(const void* from, uint64_t bytes, lf_stream stream) {
  std::vector<uint8_t> got(bytes, 0xCD);
  ask<&lf_device_api::copy>(lf_device{}, static_cast<void*>(got.data()), device, from, bytes, stream).must_succeed();
  synchronize();
  return got;
}

void Card::fill(void* memory, uint8_t value, uint64_t bytes, lf_stream stream) {
  ask<&lf_device_api::fill>(device, memory, value, bytes, stream).must_succeed();
}

lf_stream Card::new_stream() {
  lf_stream stream = nullptr;
  ask<&lf_device_api::stream_new>(device, 0, &stream).must_succeed();
  expect(stream != nullptr, "lf_device_api.stream_new: expected a stream, got null, which is the default one");
  return stream;
}

lf_event Card::new_event(uint32_t flags) {
  lf_event event = nullptr;
  ask<&lf_device_api::event_new>(device, flags, &event).must_succeed();
  expect(event != nullptr, "lf_device_api.event_new: expected an event, got null");
  return event;
}

Block::Block(Card& card, uint64_t bytes) : card_(card) {
  card.ask<&lf_device_api::memory_alloc>(card.device, bytes, int32_t{LF_MEMORY_MAIN}, &memory_).must_succeed();
  expect(bytes == 0 || memory_ != nullptr, "lf_device_api.memory_alloc: expected {} bytes, got null", bytes);
}

Block::~Block() {
  try {
    card_.ask<&lf_device_api::memory_free>(card_.device, memory_);
  } catch (const std::exception&) {
    card_.bench.crumb().leave();
  }
}

std::vector<uint8_t> pattern(uint64_t bytes, uint32_t seed) {
  std::vector<uint8_t> values(bytes);
  uint32_t state = seed * 2654435761u + 1;  // xorshift32, Marsaglia 2003
  for (uint8_t& value : values) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    value = static_cast<uint8_t>(state >> 24);
  }
  return values;
}

void expect_same(std::span<const uint8_t> got, std::span<const uint8_t> wanted, const char* what) {
  expect(got.size() == wanted.size(), "{}: expected {} bytes, got {}", what, wanted.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i)
    expect(got[i] == wanted[i], "{}: byte {} of {}: expected {:#04x}, got {:#04x}", what, i, got.size(), wanted[i],
           got[i]);
}

}  // namespace lf::kit
