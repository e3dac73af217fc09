// The arguments of `lfrun balance`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "balance/scaling.h"
#include "balance/scenario.h"

namespace lf {

constexpr int64_t kMostDrawn = int64_t{1} << 25;  // samples of a step: a few GB

struct BalanceOptions {
  bool help = false;
  std::set<std::string> given;    // flags, without "--"
  std::filesystem::path samples;  // or
  std::filesystem::path job;      // a job file, with
  std::vector<std::string> sets;  // its --set; or
  std::string synthetic;
  int64_t image_max_pixels = 0;
  bool cuts = false;     // else samples longer than a pack are left out
  int64_t per_rank = 0;  // samples of a replica in a step; 0: all samples are one step, or packs say
  uint64_t seed = 1;
  std::vector<std::string> policies;
  std::map<std::string, std::string> policy_options;  // by policy, JSON
  double trigger = 0;  // a step is planned where its slowest replica is more than so much above the mean
  Scenario scenario;
  WorkCost cost;
  std::string cost_name;
  Profile profile;
  std::vector<int32_t> scaling;  // replica counts; empty: none
  bool json = false;
  std::filesystem::path plot;
};

// Throws kUsage, naming the flag, what was expected and what came.
BalanceOptions read_balance_options(std::span<const std::string> arguments);

std::string balance_help();

}  // namespace lf
