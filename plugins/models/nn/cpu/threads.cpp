#include "nn/cpu/threads.h"

#include <algorithm>
#include <atomic>

#include <ATen/Parallel.h>

namespace lf::nn::cpu {

void for_ranges(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(0, n, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end) { body(begin, end); });
}

void for_tasks(int64_t n, const std::function<void(int64_t, int64_t)>& body) {
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, std::min(n, thread_count()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread)
      for (int64_t task = next++; task < n; task = next++) body(task, thread);
  });
}

int64_t thread_count() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

}  // namespace lf::nn::cpu
