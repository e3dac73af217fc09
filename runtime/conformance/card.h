// The first card of a device plugin, opened for one case.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "conformance/bench.h"
#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/device.h"

namespace lf::kit {

// Device memory, freed at the end of the case.
class Card;
class Block {
 public:
  Block(Card& card, uint64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* at(uint64_t offset = 0) const { return static_cast<char*>(memory_) + offset; }

 private:
  Card& card_;
  void* memory_ = nullptr;
};

class Card {
 public:
  explicit Card(Bench& bench, uint32_t ordinal = 0);  // starts the plugin; skips the case where there is no such card
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  template <auto kMember, typename... Args>
  Answer ask(Args... args) {
    return bench.ask<kMember>(api, args...);
  }
  template <auto kMember>
  bool has() const {
    return bench.has<kMember>(api);
  }

  lf_device_info info();
  lf_memory_stats stats();
  void synchronize();
  void bind_thread();  // for threads other than the case's own
  void upload(void* to, std::span<const uint8_t> bytes, lf_stream stream = nullptr);
  std::vector<uint8_t> download(const void* from, uint64_t bytes, lf_stream stream = nullptr);  // complete on return
  void fill(void* memory, uint8_t value, uint64_t bytes, lf_stream stream = nullptr);
  lf_stream new_stream();
  lf_event new_event(uint32_t flags = 0);

  Bench& bench;
  const lf_device_api* api = nullptr;
  lf_device device = nullptr;
};

std::vector<uint8_t> pattern(uint64_t bytes, uint32_t seed = 1);
void expect_same(std::span<const uint8_t> got, std::span<const uint8_t> wanted, const char* what);

}  // namespace lf::kit
