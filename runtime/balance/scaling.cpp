#include "balance/scaling.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "balance/random.h"
#include "core/error.h"

namespace lf {

namespace {

// One list for reading and writing.
std::vector<std::pair<const char*, double Profile::*>> fields() {
  return {{"flops_per_second", &Profile::flops_per_second},
          {"fixed_seconds", &Profile::fixed_seconds},
          {"gradient_bytes", &Profile::gradient_bytes},
          {"bus_bandwidth", &Profile::bus_bandwidth},
          {"latency_seconds", &Profile::latency_seconds},
          {"noise", &Profile::noise},
          {"overlap", &Profile::overlap}};
}

}  // namespace

std::string profile_text(const Profile& profile, const std::string& fit) {
  nlohmann::ordered_json json;
  for (const auto& [name, field] : fields()) json[name] = profile.*field;
  json["fit"] = nlohmann::ordered_json::parse(fit);
  return json.dump(1) + "\n";
}

Profile read_profile(const std::filesystem::path& path, Profile profile) {
  std::ifstream in(path);
  if (!in) fail(Exit::kInputMissing, "--profile: {} cannot be read", path.string());
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) fail(Exit::kBadData, "{}: expected a JSON object", path.string());
  std::map<std::string, double*> known;
  for (const auto& [name, field] : fields()) known[name] = &(profile.*field);
  for (const auto& [key, value] : json.items()) {
    if (key == "fit") continue;
    const auto field = known.find(key);
    if (field == known.end()) {
      std::string names;
      for (const auto& [name, target] : known) names += (names.empty() ? "" : ", ") + name;
      fail(Exit::kBadData, "{}: {}: expected one of {}", path.string(), key, names);
    }
    const bool positive = key == "flops_per_second" || key == "bus_bandwidth";
    if (!value.is_number() || value.get<double>() < 0 || (positive && value.get<double>() == 0))
      fail(Exit::kBadData, "{}: {}: expected a number {} 0, got {}", path.string(), key, positive ? "above" : "from",
           value.dump());
    *field->second = value.get<double>();
  }
  return profile;
}

double slowdown_by_noise(const std::vector<double>& seconds, double noise, uint64_t seed) {
  constexpr int kDraws = 32;
  const double slowest = seconds.empty() ? 0 : *std::ranges::max_element(seconds);
  if (slowest <= 0 || noise <= 0) return 1;
  Random random(seed);
  double sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    double most = 0;
    for (const double s : seconds) most = std::max(most, s * (1 + noise * random.normal()));
    sum += most / slowest;
  }
  return std::max(1.0, sum / kDraws);
}

double communication_seconds(const Profile& profile, int64_t replicas) {
  if (replicas < 2) return 0;
  const auto r = static_cast<double>(replicas);
  const int hops = std::bit_width(static_cast<uint64_t>(replicas - 1));
  return 2 * (r - 1) / r * profile.gradient_bytes / profile.bus_bandwidth + profile.latency_seconds * hops;
}

double exposed_seconds(const Profile& profile, int64_t replicas, double mean_compute_seconds) {
  return std::max(0.0, communication_seconds(profile, replicas) - profile.overlap * mean_compute_seconds);
}

std::vector<int32_t> doubling_range(const std::string& text) {
  const size_t dots = text.find("..");
  int32_t first = 0, last = 0;
  const auto number = [&](size_t begin, size_t end, int32_t& value) {
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    return error == std::errc{} && stop == text.data() + end;
  };
  if (dots == text.npos || !number(0, dots, first) || !number(dots + 2, text.size(), last) || first < 1 ||
      last < first || last > 65536)
    fail(Exit::kUsage, "--scaling: expected a range such as 8..4096, got {}", text);
  std::vector<int32_t> range;
  for (int32_t replicas = first; replicas <= last; replicas *= 2) range.push_back(replicas);
  return range;
}

}  // namespace lf
