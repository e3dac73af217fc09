// How a job scales: the step time against the number of replicas, simulated.
//
//   step = slowest replica's compute, noise included, + fixed seconds + exposed communication
//   communication = 2 (R - 1) / R * gradient_bytes / bus_bandwidth + latency * ceil(log2 R)       (ring all-reduce)
//   exposed = max(0, communication - overlap * compute of the mean replica)
//
// The first summand comes from plans of real or synthetic samples, the others from a profile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lf {

// What was measured on the machine to be scaled up; defaults are a card of 400 TFLOP/s on a link of 50 GB/s that trains
// 8B parameters with gradients in bf16. `profile.json`, which training writes, has these names.
struct Profile {
  double flops_per_second = 400e12;
  double fixed_seconds = 0;        // of a micro-batch
  double gradient_bytes = 16e9;    // reduced in every step
  double bus_bandwidth = 50e9;     // bytes per second and replica
  double latency_seconds = 20e-6;  // of one hop
  double noise = 0.01;             // standard deviation of a replica's step time from what its work explains, relative
  double overlap = 0.6;  // share of the compute that communication can hide behind: of backward, all but a layer
};

// What the file does not say stays as in `otherwise`. Throws kInputMissing, or kBadData naming the key: unknown, not a
// number, below 0. "fit", which is for people, is passed over.
Profile read_profile(const std::filesystem::path& path, Profile otherwise = {});
// The text of profile.json. `fit`: JSON of how the costs were found.
std::string profile_text(const Profile& profile, const std::string& fit);

// By how much the slowest of these replicas is slower than the slowest without noise: the mean of some draws of normal
// noise, the same for the same seed and number of replicas. Of a thousand equal ones, 3.2 standard deviations.
double slowdown_by_noise(const std::vector<double>& seconds, double noise, uint64_t seed);

double communication_seconds(const Profile& profile, int64_t replicas);
double exposed_seconds(const Profile& profile, int64_t replicas, double mean_compute_seconds);

// "8..4096" -> 8, 16, ..., 4096. Throws kUsage for what is no such range.
std::vector<int32_t> doubling_range(const std::string& text);

}  // namespace lf
