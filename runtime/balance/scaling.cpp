#include "balance/scaling.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "balance/random.h"
#include "core/error.h"

namespace lf {

namespace {

constexpr double kMost = 1e30;  // of anything: what is counted, added and multiplied here then stays finite
constexpr const char* kAdvice = "give a profile.json as training writes it";

struct Field {
  const char* name;
  double Profile::*value;
  bool positive = false;  // 0 is none of it
  double most = kMost;
};

// One list for reading and writing.
constexpr Field kFields[] = {{"flops_per_second", &Profile::flops_per_second, true},
                             {"fixed_seconds", &Profile::fixed_seconds},
                             {"gradient_bytes", &Profile::gradient_bytes},
                             {"bus_bandwidth", &Profile::bus_bandwidth, true},
                             {"latency_seconds", &Profile::latency_seconds},
                             {"noise", &Profile::noise, false, 100},
                             {"other_seconds", &Profile::other_seconds},
                             {"overlap", &Profile::overlap, false, 1}};

double checked(const nlohmann::json& value, const std::string& place, bool positive = false, double most = kMost) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0) || (positive && number == 0) || number > most)
    fail(Exit::kBadData, "{}: expected a number {} 0{}, got {}; {}", place, positive ? "above" : "from",
         most < kMost ? fmt::format(" to {}", most) : "", value.dump(), kAdvice);
  return number;
}

// A number of an object, or what is wrong with it.
double number_of(const nlohmann::json& object, const char* key, const std::string& place, double most = kMost) {
  const auto found = object.find(key);
  if (found == object.end())
    fail(Exit::kBadData, "{}.{}: expected a number from 0, got nothing; {}", place, key, kAdvice);
  return checked(*found, fmt::format("{}.{}", place, key), false, most);
}

constexpr double kMostCount = 2147483647;

// Terms that did no work have no cost to tell.
FittedCosts fitted_of(const nlohmann::json& fit, const std::string& place) {
  FittedCosts fitted;
  fitted.ranks = static_cast<int>(number_of(fit, "ranks", place, kMostCount));
  fitted.steps = static_cast<int64_t>(number_of(fit, "steps", place, kMostCount));
  const auto terms = fit.find("terms");
  if (terms == fit.end() || !terms->is_array())
    fail(Exit::kBadData, "{}.terms: expected a list of terms with name, seconds_of_a_step and units_of_a_step; {}",
         place, kAdvice);
  for (const nlohmann::json& term : *terms) {
    const std::string at = place + ".terms";
    if (!term.is_object() || !term.contains("name") || !term["name"].is_string())
      fail(Exit::kBadData, "{}: expected objects with a name, got {}; {}", at, term.dump(), kAdvice);
    const std::string name = term["name"];
    const double seconds = number_of(term, "seconds_of_a_step", at), units = number_of(term, "units_of_a_step", at);
    if (units <= 0) continue;
    fitted.seconds_per_operation[name] = seconds / units;
    fitted.description += fmt::format("{}{} {:.3g} s", fitted.description.empty() ? "" : ", ", name, seconds);
  }
  return fitted;
}

MeasuredStep measured_of(const nlohmann::json& json, const std::string& place) {
  return {static_cast<int>(number_of(json, "ranks", place, kMostCount)),
          static_cast<int>(number_of(json, "micro_batches", place, kMostCount)),
          number_of(json, "step_seconds", place)};
}

}  // namespace

std::string profile_text(const Profile& profile, const std::string& fit) {
  nlohmann::ordered_json json;
  for (const Field& field : kFields) json[field.name] = profile.*field.value;
  if (profile.measured)
    json["measured"] = {{"ranks", profile.measured->ranks},
                        {"micro_batches", profile.measured->micro_batches},
                        {"step_seconds", profile.measured->seconds}};
  json["fit"] = nlohmann::ordered_json::parse(fit);
  return json.dump(1) + "\n";
}

Profile read_profile(const std::filesystem::path& path, Profile profile) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path))
    fail(Exit::kInputMissing, "--profile: {} cannot be read; {}", path.string(), kAdvice);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object())
    fail(Exit::kBadData, "--profile: {}: expected a JSON object, got {}; {}", path.string(),
         json.is_discarded() ? "what is no JSON" : json.type_name(), kAdvice);
  for (const auto& [key, value] : json.items()) {
    const std::string place = fmt::format("--profile: {}: {}", path.string(), key);
    if (key == "fit" || key == "measured") {
      if (!value.is_object()) fail(Exit::kBadData, "{}: expected an object, got {}; {}", place, value.dump(), kAdvice);
      if (key == "fit") profile.fitted = fitted_of(value, place);
      if (key == "measured") profile.measured = measured_of(value, place);
      continue;
    }
    const auto field = std::ranges::find(kFields, key, [](const Field& one) { return std::string_view(one.name); });
    if (field == std::end(kFields)) {
      std::string names = "fit, measured";
      for (const Field& one : kFields) names += std::string(", ") + one.name;
      fail(Exit::kBadData, "{}: expected one of {}; remove it", place, names);
    }
    profile.*field->value = checked(value, place, field->positive, field->most);
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
