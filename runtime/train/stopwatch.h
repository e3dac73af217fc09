// Time since it was made: passed, and spent by processors.
#pragma once

#include <ctime>

namespace lf {

class Stopwatch {
 public:
  double seconds() const { return now(CLOCK_MONOTONIC) - passed_; }
  double thread_cpu_seconds() const { return now(CLOCK_THREAD_CPUTIME_ID) - thread_; }  // on the thread that made it
  double process_cpu_seconds() const { return now(CLOCK_PROCESS_CPUTIME_ID) - process_; }

 private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double passed_ = now(CLOCK_MONOTONIC), thread_ = now(CLOCK_THREAD_CPUTIME_ID),
         process_ = now(CLOCK_PROCESS_CPUTIME_ID);
};

}  // namespace lf
