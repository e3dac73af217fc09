// The simulated host: cards, which of them a process sees, and how they misbehave. All from the environment, read once.
//
//   LF_SIM_XPU_COUNT=2         cards in the machine          LF_SIM_XPU_MEM=4294967296   bytes of main memory of a card
//   LF_SIM_XPU_MODEL=300       300: KL3, 3: KL2              LF_SIM_XPU_L3=67108864      bytes of L3 of a card
//   LF_SIM_XPU_MBPS=0          asynchronous copies take bytes / (MBPS * 1e6) seconds; 0: as fast as memcpy
//   LF_SIM_XPU_FAIL=...        see fault_script.h         LF_SIM_XPU_FAIL_RANK=1       only where RANK is that
//   LF_SIM_XPU_QUIRKS=a,b      device_list_writes_nothing | attr_ignores_device | positive_codes | first_id_64
//   XPU_VISIBLE_DEVICES=1,0    the vendor's own mask; empty: none
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "arena.h"
#include "fault_script.h"
#include "stream.h"

namespace lf::sim {

struct Card {
  Card(int id, uint64_t main_bytes, uint64_t l3_bytes) : main(main_bytes), l3(l3_bytes), default_stream(id) {}
  Arena main, l3;
  Stream default_stream;
  std::atomic<bool> abnormal = false;  // sticky: every later call answers 713
};

class Machine {
 public:
  static constexpr size_t kMaxStreams = 256;

  static Machine& get();  // one per process, never destroyed: workers may still run when the process exits

  int physical_count() const { return static_cast<int>(cards_.size()); }
  int visible_count() const { return static_cast<int>(visible_.size()); }
  int physical(int ordinal) const { return visible_.at(ordinal); }
  Card& card(int physical) { return *cards_.at(physical); }
  Card* card_of(const void* memory);  // null: host memory
  std::byte* bytes_of(const void* memory, uint64_t bytes);
  uint64_t model() const { return model_; }
  bool quirk(const std::string& name) const { return quirks_.contains(name); }
  FaultScript& faults() { return faults_; }
  void simulate_transfer(uint64_t bytes) const;

  // Handles that the program holds; a stale one is found out instead of followed.
  Stream* add_stream(int physical);  // null: too many
  bool drop_stream(void* handle);
  Stream* stream(void* handle, int current);  // null handle: the current device's default stream. Null: stale
  Event* add_event();
  bool drop_event(void* handle);
  Event* event(void* handle);

 private:
  Machine();
  std::vector<std::unique_ptr<Card>> cards_;
  std::vector<int> visible_;
  uint64_t model_;
  double seconds_per_byte_;
  std::set<std::string> quirks_;
  FaultScript faults_;
  std::mutex mutex_;
  std::set<void*> streams_, events_;
};

}  // namespace lf::sim
