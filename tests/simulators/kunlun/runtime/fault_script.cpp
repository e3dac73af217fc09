#include "fault_script.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "xpu/runtime.h"

namespace lf::sim {
namespace {

[[noreturn]] void unreadable(const std::string& rule) {
  std::fprintf(stderr, "simulator: LF_SIM_XPU_FAIL: cannot read \"%s\"; expected function@when=action\n", rule.c_str());
  std::abort();
}

void sleep_ms(long ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

FaultScript::FaultScript(const char* text) {
  std::istringstream rules(text == nullptr ? "" : text);
  for (std::string rule; std::getline(rules, rule, ';');) {
    const size_t at = rule.find('@'), equals = rule.find('=');
    if (at == rule.npos || equals == rule.npos || at == 0 || equals < at + 2) unreadable(rule);
    const std::string when = rule.substr(at + 1, equals - at - 1);
    Rule parsed{1, UINT64_MAX, rule.substr(equals + 1)};
    if (when != "*") {
      parsed.first = std::strtoull(when.c_str(), nullptr, 10);
      if (parsed.first == 0) unreadable(rule);
      if (when.back() != '+') parsed.last = parsed.first;
    }
    rules_[rule.substr(0, at)].push_back(parsed);
  }
}

int FaultScript::at(const std::string& function) {
  if (rules_.empty()) return 0;
  std::string action;
  {
    const std::lock_guard lock(mutex_);
    const auto rules = rules_.find(function);
    if (rules == rules_.end()) return 0;
    const uint64_t call = ++calls_[function];
    for (const Rule& rule : rules->second)
      if (call >= rule.first && call <= rule.last) action = rule.action;
  }
  if (action.empty()) return 0;
  const size_t colon = action.find(':');
  const long argument = colon == action.npos ? 0 : std::atol(action.c_str() + colon + 1);
  const std::string verb = action.substr(0, colon);
  if (verb == "exit") _exit(static_cast<int>(argument));
  if (verb == "delay") {
    sleep_ms(argument);
    const size_t comma = action.find(',');
    return comma == action.npos ? 0 : std::atoi(action.c_str() + comma + 1);
  }
  if (verb == "hang") {
    while (colon == action.npos) sleep_ms(1000);
    sleep_ms(argument);
    return -XPUERR_TIMEOUT;
  }
  return std::atoi(action.c_str());
}

}  // namespace lf::sim
