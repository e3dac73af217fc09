#include "torch/fallen_operators.h"

#include <algorithm>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/bridge.h"

namespace lf::kunlun {
namespace {

void require_allowed(const std::string& name) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      bridge().may_fall_back(), "kunlun has no operator ", name,
      "; to run such operators on the CPU, write op_fallback = \"warn\" under [device] of the job, or give "
      "lfrun parity --op-fallback warn");
}

}  // namespace

FallenOperators& fallen_operators() {
  static auto* const operators = new FallenOperators;
  return *operators;
}

void FallenOperators::note(const c10::OperatorHandle& operation) {
  const std::lock_guard lock(mutex_);
  auto& [name, count] = by_schema_[&operation.schema()];
  if (count == 0) {
    name = c10::toString(operation.operator_name());
    require_allowed(name);
  }
  ++count;
}

void FallenOperators::note(const char* name) {
  require_allowed(name);
  const std::lock_guard lock(mutex_);
  ++by_name_[name];
}

std::string FallenOperators::report() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, std::string>> all;
  for (const auto& [name, count] : by_name_) all.emplace_back(count, name);
  for (const auto& [schema, counted] : by_schema_)
    if (counted.second > 0) all.emplace_back(counted.second, counted.first);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::string lines;
  for (const auto& [count, name] : all) lines += name + " " + std::to_string(count) + "\n";
  return lines;
}

}  // namespace lf::kunlun
