#include "family/json_fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

using nlohmann::json;

namespace {

std::string shortened(std::string text) { return text.size() > 80 ? text.substr(0, 77) + "..." : text; }

}  // namespace

JsonFields::JsonFields(const json& object, std::string place, Findings* findings)
    : object_(object), place_(std::move(place)), findings_(findings) {
  if (!object_.is_object())
    throw sdk::Failure(LF_E_INVALID, fmt::format("{}: expected an object, got {}", place_, object_.dump()));
}

JsonFields JsonFields::inside(const json& object, std::string place) const {
  return JsonFields(object, std::move(place), findings_);
}

bool JsonFields::has(const std::string& name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const json* JsonFields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::sound(std::initializer_list<const char*> names) const {
  return findings_ == nullptr || std::all_of(names.begin(), names.end(),
                                             [&](const char* name) { return findings_->sound(place_ + "." + name); });
}

void JsonFields::complain(const std::string& name, const std::string& text,
                          std::initializer_list<const char*> others) const {
  if (findings_ == nullptr) throw sdk::Failure(LF_E_INVALID, text);
  if (sound(others)) findings_->add(place_ + "." + name, text);
}

void JsonFields::refuse(const std::string& name, const std::string& expected,
                        std::initializer_list<const char*> others) const {
  const auto found = object_.find(name);
  const std::string got = found == object_.end() ? "nothing" : shortened(found->dump());
  complain(name, fmt::format("{}.{}: expected {}, got {}", place_, name, expected, got), others);
}

int64_t JsonFields::size(const std::string& name, int64_t most) {
  if (find(name) != nullptr) return within(name, 1, most, 1);
  refuse(name, fmt::format("an integer in [1, {}], as sizes must be stated", most));
  return 1;
}

int64_t JsonFields::within(const std::string& name, int64_t least, int64_t most, int64_t fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  // A number of 2^63 and more is unsigned here, and would be negative as int64_t.
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(most)
                                                : value->is_number_integer() && value->get<int64_t>() <= most;
  if (!fits || value->get<int64_t>() < least) {
    refuse(name, fmt::format("an integer in [{}, {}]", least, most));
    return fallback;
  }
  return value->get<int64_t>();
}

int64_t JsonFields::at_least(const std::string& name, int64_t least, int64_t fallback) {
  return within(name, least, int64_t{1} << 40, fallback);
}

int64_t JsonFields::positive(const std::string& name, int64_t fallback, int64_t most) {
  return within(name, 1, most, fallback);
}

double JsonFields::number(const std::string& name, double fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    refuse(name, "a number");
    return fallback;
  }
  return value->get<double>();
}

double JsonFields::positive_number(const std::string& name, double fallback, double most) {
  const double value = number(name, fallback);
  if (value > 0 && value <= most) return value;
  refuse(name, most < std::numeric_limits<double>::max() ? fmt::format("a number above 0 and up to {}", most)
                                                         : "a number above 0");
  return fallback;
}

bool JsonFields::flag(const std::string& name, bool fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    refuse(name, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string JsonFields::text(const std::string& name, const std::string& fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    refuse(name, "a string");
    return fallback;
  }
  return value->get<std::string>();
}

std::optional<int64_t> JsonFields::integer(const std::string& name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    refuse(name, "an integer");
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::vector<int64_t> JsonFields::integers(const std::string& name, std::vector<int64_t> fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), [](const json& v) {
        // A number of 2^63 and more is unsigned here, and would be negative as int64_t.
        return v.is_number_unsigned()
                   ? v.get<uint64_t>() <= static_cast<uint64_t>(kMostListed)
                   : v.is_number_integer() && v.get<int64_t>() >= -kMostListed && v.get<int64_t>() <= kMostListed;
      })) {
    refuse(name, fmt::format("a list of integers in [{}, {}]", -kMostListed, kMostListed));
    return fallback;
  }
  return value->get<std::vector<int64_t>>();
}

const json* JsonFields::object(const std::string& name) {
  const json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  refuse(name, "an object");
  return nullptr;
}

void JsonFields::together(const std::string& name, int64_t value, const char* other, int64_t other_value) const {
  if (value > kMostSize / other_value)
    refuse(name, fmt::format("at most {}, as {} x {} counts up to {}", kMostSize / other_value, other, name, kMostSize),
           {other});
}

void JsonFields::only(const std::string& name, const std::vector<json>& neutral, const std::string& what) {
  const json* value = find(name);
  if (value == nullptr || std::find(neutral.begin(), neutral.end(), *value) != neutral.end()) return;
  std::string allowed = "nothing";
  for (const json& one : neutral) allowed += " or " + one.dump();
  refuse(name, fmt::format("{} ({})", allowed, what));
}

void JsonFields::ignore(std::initializer_list<const char*> names) { known_.insert(names.begin(), names.end()); }

void JsonFields::refuse_unread(const std::string& why) const {
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name)) complain(name, fmt::format("{}.{}: {}", place_, name, why));
}

std::vector<std::string> JsonFields::unread_but_off(const std::string& family) const {
  std::vector<std::string> off;
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    if (!(value == false || value == 0 || value == "" || (value.is_structured() && value.empty()))) {
      complain(name, fmt::format("{}.{} = {}: {} does not know this field, which may change the maths; "
                                 "remove it if it changes nothing",
                                 place_, name, shortened(value.dump()), family));
      continue;
    }
    off.push_back(fmt::format("{}.{}", place_, name));
  }
  return off;
}

}  // namespace lf::family
