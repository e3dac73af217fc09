#include "data/order.h"

#include <algorithm>

#include "core/error.h"

namespace lf {
namespace {

constexpr int kRounds = 96;

// The finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t below(uint64_t bits, uint64_t limit) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * limit) >> 64);
}

}  // namespace

Order::Order(uint64_t size, uint64_t seed, bool shuffle) : size_(size), seed_(seed), shuffle_(shuffle) {
  if (size == 0) fail(Exit::kBug, "an order of nothing");
}

uint64_t Order::at(uint64_t position) const {
  uint64_t x = position % size_;
  if (!shuffle_) return x;
  const uint64_t key = mix(mix(seed_) ^ epoch(position));
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t round_key = mix(key + static_cast<uint64_t>(round));
    const uint64_t pivot = below(round_key, size_);
    const uint64_t partner = pivot >= x ? pivot - x : pivot + (size_ - x);
    if ((mix(round_key ^ std::max(x, partner)) & 1) != 0) x = partner;
  }
  return x;
}

}  // namespace lf
