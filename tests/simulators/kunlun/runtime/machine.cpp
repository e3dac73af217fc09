#include "machine.h"

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <thread>

namespace lf::sim {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::set<std::string> words(const char* text) {
  std::set<std::string> found;
  std::istringstream list(text == nullptr ? "" : text);
  for (std::string word; std::getline(list, word, ',');) found.insert(word);
  return found;
}

// RANK is how launchers tell the processes of one job apart.
const char* script_of_this_rank() {
  const char* wanted = std::getenv("LF_SIM_XPU_FAIL_RANK");
  const char* own = std::getenv("RANK");
  if (wanted != nullptr && *wanted != '\0' && (own == nullptr || std::string_view(wanted) != own)) return nullptr;
  return std::getenv("LF_SIM_XPU_FAIL");
}

}  // namespace

Machine& Machine::get() {
  static Machine* const machine = new Machine;
  return *machine;
}

Machine::Machine()
    : model_(number("LF_SIM_XPU_MODEL", 300)),
      seconds_per_byte_(0),
      quirks_(words(std::getenv("LF_SIM_XPU_QUIRKS"))),
      faults_(script_of_this_rank()) {
  const int count = static_cast<int>(number("LF_SIM_XPU_COUNT", 2));
  for (int id = 0; id < count; ++id)
    cards_.push_back(
        std::make_unique<Card>(id, number("LF_SIM_XPU_MEM", uint64_t{4} << 30), number("LF_SIM_XPU_L3", 64 << 20)));
  if (const uint64_t mbps = number("LF_SIM_XPU_MBPS", 0)) seconds_per_byte_ = 1 / (static_cast<double>(mbps) * 1e6);
  if (const char* mask = std::getenv("XPU_VISIBLE_DEVICES")) {
    std::istringstream ids(mask);
    for (std::string id; std::getline(ids, id, ',');)
      if (const int n = std::atoi(id.c_str()); n >= 0 && n < count) visible_.push_back(n);
  } else {
    for (int id = 0; id < count; ++id) visible_.push_back(id);
  }
}

Card* Machine::card_of(const void* memory) {
  for (const auto& card : cards_)
    if (card->main.contains(memory) || card->l3.contains(memory)) return card.get();
  return nullptr;
}

std::byte* Machine::bytes_of(const void* memory, uint64_t bytes) {
  Card* card = card_of(memory);
  if (card == nullptr) return nullptr;
  return card->main.contains(memory) ? card->main.bytes_of(memory, bytes) : card->l3.bytes_of(memory, bytes);
}

void Machine::simulate_transfer(uint64_t bytes) const {
  if (seconds_per_byte_ > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) * seconds_per_byte_));
}

Stream* Machine::add_stream(int physical) {
  const std::lock_guard lock(mutex_);
  if (streams_.size() >= kMaxStreams) return nullptr;
  auto* stream = new Stream(physical);
  streams_.insert(stream);
  return stream;
}

bool Machine::drop_stream(void* handle) {
  {
    const std::lock_guard lock(mutex_);
    if (streams_.erase(handle) == 0) return false;
  }
  delete static_cast<Stream*>(handle);
  return true;
}

Stream* Machine::stream(void* handle, int current) {
  if (handle == nullptr) return &card(current).default_stream;
  const std::lock_guard lock(mutex_);
  return streams_.contains(handle) ? static_cast<Stream*>(handle) : nullptr;
}

Event* Machine::add_event() {
  auto* event = new Event;
  const std::lock_guard lock(mutex_);
  events_.insert(event);
  return event;
}

bool Machine::drop_event(void* handle) {
  const std::lock_guard lock(mutex_);
  if (events_.erase(handle) == 0) return false;
  delete static_cast<Event*>(handle);
  return true;
}

Event* Machine::event(void* handle) {
  const std::lock_guard lock(mutex_);
  return events_.contains(handle) ? static_cast<Event*>(handle) : nullptr;
}

}  // namespace lf::sim
