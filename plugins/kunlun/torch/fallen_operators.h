// Operators that the device does not have: refused, or counted and run on the CPU.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace c10 {
class OperatorHandle;
}

namespace lf::kunlun {

class FallenOperators {
 public:
  // Throws a NotImplementedError that names the operator and the setting, unless the job allows them.
  void note(const c10::OperatorHandle& operation);
  void note(const char* name);
  // "NAME COUNT\n" for each, the most frequent first.
  std::string report() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> by_name_;
  std::unordered_map<const void*, std::pair<std::string, uint64_t>>
      by_schema_;  // a schema lives as long as the process
};

FallenOperators& fallen_operators();

}  // namespace lf::kunlun
