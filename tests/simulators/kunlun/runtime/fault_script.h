// LF_SIM_XPU_FAIL: faults at chosen calls, as "function@when=action;...".
//   when    N (the N-th call of the process, from 1) | N+ (from the N-th on) | * (every one)
//   action  a code to return, "-705" | hang (for ever) | hang:MS (then -715) | delay:MS (then as usual) |
//           delay:MS,CODE | exit:CODE
// "work" is no function but each piece of work that a stream runs: its code is the stream's asynchronous error.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lf::sim {

class FaultScript {
 public:
  explicit FaultScript(const char* text);  // null: no faults. Aborts on a script that it cannot read.
  int at(const std::string& function);     // 0, or the code to return; sleeps or exits as the script says

 private:
  struct Rule {
    uint64_t first, last;
    std::string action;
  };
  std::mutex mutex_;
  std::map<std::string, std::vector<Rule>> rules_;
  std::map<std::string, uint64_t> calls_;
};

}  // namespace lf::sim
