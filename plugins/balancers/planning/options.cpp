#include "planning/options.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::planning {
namespace {

std::string list(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text.empty() ? "none" : text;
}

// Empty, or what is wrong.
std::string read(const Setting& setting, const nlohmann::json& value) {
  const std::string name(setting.name);
  if (setting.number != nullptr) {
    if (!value.is_number() || value.get<double>() < setting.least || value.get<double>() > setting.most)
      return name + ": expected a number from " + nlohmann::json(setting.least).dump() + " to " +
             nlohmann::json(setting.most).dump() + ", got " + value.dump();
    *setting.number = value.get<double>();
  } else {
    if (!value.is_string() || std::ranges::find(setting.words, value.get<std::string>()) == setting.words.end())
      return name + ": expected one of " + list(setting.words) + ", got " + value.dump();
    *setting.word = value.get<std::string>();
  }
  return {};
}

}  // namespace

void read_settings(std::string_view json, const std::vector<Setting>& settings) {
  if (json.empty()) return;
  const nlohmann::json object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object())
    throw sdk::Failure(LF_E_INVALID, "balance.options: expected a table, got " + std::string(json));
  std::string mistakes;
  const auto refuse = [&](const std::string& what) {
    if (!what.empty()) mistakes.append(mistakes.empty() ? "" : "\n").append("balance.options: " + what);
  };
  for (const auto& [key, value] : object.items()) {
    const auto setting = std::ranges::find(settings, key, &Setting::name);
    if (setting == settings.end()) {
      std::vector<std::string_view> names;
      for (const Setting& known : settings) names.push_back(known.name);
      refuse("unknown setting " + key + "; this policy's settings: " + list(names));
      continue;
    }
    refuse(read(*setting, value));
  }
  if (!mistakes.empty()) throw sdk::Failure(LF_E_INVALID, mistakes);
}

}  // namespace lf::planning
