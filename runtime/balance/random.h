// Reproducible draws for synthetic samples and simulations: the same seed gives the same numbers on every machine with
// the same maths library. Not for plans, which draw nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace lf {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
  uint64_t bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  uint64_t below(uint64_t n) { return static_cast<uint64_t>(uniform() * static_cast<double>(n)); }
  double normal() {  // Box-Muller, one of the pair
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  double lognormal(double mu, double sigma) { return std::exp(mu + sigma * normal()); }

 private:
  uint64_t state_;
};

}  // namespace lf
