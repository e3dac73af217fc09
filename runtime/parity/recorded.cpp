#include "parity/recorded.h"

#include <fstream>
#include <iterator>
#include <regex>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

using nlohmann::json;

// JSON as Python writes it, which has numbers that JSON lacks: they become null.
json python_json(const std::string& text) {
  static const std::regex kNotNumbers(R"((:\s*)(-?Infinity|NaN)\b)");
  return json::parse(std::regex_replace(text, kNotNumbers, "$1null"));
}

RecordedCase case_of(const json& stated) {
  RecordedCase one;
  one.no_gradient_json = stated.value("no_grad", json::array()).dump();
  const auto found = stated.find("adamw");
  if (found == stated.end()) return one;
  one.adamw.learning_rate = found->at("lr");
  one.adamw.beta1 = found->at("betas").at(0);
  one.adamw.beta2 = found->at("betas").at(1);
  one.adamw.epsilon = found->at("eps");
  one.adamw.weight_decay = found->at("weight_decay");
  one.adamw.clip_norm = found->at("clip_grad_norm");
  return one;
}

}  // namespace

OptimizerSection RecordedCase::recorded_adamw() {
  OptimizerSection adamw;
  adamw.learning_rate = 1e-3;
  adamw.beta1 = 0.9;
  adamw.beta2 = 0.95;
  adamw.epsilon = 1e-8;
  adamw.weight_decay = 0.1;
  adamw.clip_norm = 1;
  return adamw;
}

Recorded::Recorded(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "meta.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::string name;
  try {
    const json meta = python_json(text);
    const json cases = meta.value("cases", json::object());
    for (const auto& [key, stated] : cases.items()) {
      name = key;
      cases_.emplace(key, case_of(stated));
    }
  } catch (const json::exception& wrong) {
    fail(Exit::kBadData,
         "{}{}: expected how the reference made its numbers (cases.NAME.adamw with lr, betas, eps, weight_decay and "
         "clip_grad_norm; cases.NAME.no_grad), got: {}; record it anew, or take it away for the settings that "
         "tools/reference_case.py uses",
         file.string(), name.empty() ? "" : ": cases." + name, wrong.what());
  }
}

const RecordedCase& Recorded::of(const std::string& name) const {
  const auto found = cases_.find(name);
  return found == cases_.end() ? any_ : found->second;
}

std::vector<std::string> Recorded::names() const {
  std::vector<std::string> names;
  for (const auto& [name, stated] : cases_) names.push_back(name);
  return names;
}

}  // namespace lf
