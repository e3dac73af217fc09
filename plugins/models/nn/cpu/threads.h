// LibTorch's own threads for our loops.
#pragma once

#include <cstdint>
#include <functional>

namespace lf::nn::cpu {

// body(begin, end) over pieces of [0, n) of at least `grain`; the pieces depend on the number of threads.
void for_ranges(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

// body(task, thread) for each task in [0, n), each thread taking the next one when it is free: for tasks of unlike size
// whose results do not depend on who runs them. thread < thread_count().
void for_tasks(int64_t n, const std::function<void(int64_t task, int64_t thread)>& body);
int64_t thread_count();

}  // namespace lf::nn::cpu
