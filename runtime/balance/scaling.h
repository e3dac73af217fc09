// How a job scales: the step time against the number of replicas, simulated.
//
//   step = slowest replica's compute, noise included, + fixed seconds + exposed communication + other seconds
//   communication = 2 (R - 1) / R * gradient_bytes / bus_bandwidth + latency * ceil(log2 R)       (ring all-reduce)
//   exposed = max(0, communication - overlap * compute of the mean replica)
//
// The first summand comes from plans of real or synthetic samples, the others from a profile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lf {

// What training fitted: seconds of an operation by the name of its term ("language.pairs"), and of what.
struct FittedCosts {
  std::map<std::string, double> seconds_per_operation;
  int ranks = 0;
  int64_t steps = 0;
  std::string description;  // every term's share of a typical step
};

// The steps that a profile is of: what a simulation of the same layout on the same data must come to.
struct MeasuredStep {
  int ranks = 0, micro_batches = 0;
  double seconds = 0;  // mean of the last steps, weighted as the costs were fitted
};

// What was measured on the machine to be scaled up; defaults are a card of 400 TFLOP/s on a link of 50 GB/s that trains
// 8B parameters with gradients in bf16. `profile.json`, which training writes, has these names.
struct Profile {
  double flops_per_second = 400e12;
  double fixed_seconds = 0;        // of a micro-batch
  double gradient_bytes = 16e9;    // reduced in every step
  double bus_bandwidth = 50e9;     // bytes per second and replica
  double latency_seconds = 20e-6;  // of one hop
  // Standard deviation of a replica's step time, relative, from what its work explains and what slows all of them.
  double noise = 0.01;
  double other_seconds = 0;  // of a step beside all this: the optimizer, gathering sums, writing metrics
  double overlap = 0.6;      // share of the compute that communication can hide behind: of backward, all but a layer
  std::optional<FittedCosts> fitted = {};
  std::optional<MeasuredStep> measured = {};
};

// What the file does not say stays as in `otherwise`. Throws kInputMissing, or kBadData naming the key: unknown, not a
// number, below 0.
Profile read_profile(const std::filesystem::path& path, Profile otherwise = {});
// The text of profile.json. `fit`: JSON of how the costs were found (CostModel::fit_json), which becomes `fitted`.
std::string profile_text(const Profile& profile, const std::string& fit);

// By how much the slowest of these replicas is slower than the slowest without noise: the mean of some draws of normal
// noise, the same for the same seed and number of replicas. Of a thousand equal ones, 3.2 standard deviations.
double slowdown_by_noise(const std::vector<double>& seconds, double noise, uint64_t seed);

double communication_seconds(const Profile& profile, int64_t replicas);
double exposed_seconds(const Profile& profile, int64_t replicas, double mean_compute_seconds);

// "8..4096" -> 8, 16, ..., 4096. Throws kUsage for what is no such range.
std::vector<int32_t> doubling_range(const std::string& text);

}  // namespace lf
