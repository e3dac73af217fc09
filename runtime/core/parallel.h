// A loop over independent pieces on several threads, for the host-side passes over flat buffers. Threads live for one
// call: starting one costs some 20 us, a pass over a buffer worth sharing costs milliseconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace lf {

// Calls work(piece) once for every piece in [0, pieces), on up to `threads` threads of which the caller is one. `work`
// must not throw. Which thread takes which piece varies: results must not depend on it.
template <typename Work>
void parallel_pieces(int threads, int64_t pieces, const Work& work) {
  const int64_t helpers = std::min<int64_t>(threads, pieces) - 1;
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t piece = next.fetch_add(1); piece < pieces; piece = next.fetch_add(1)) work(piece);
  };
  std::vector<std::jthread> pool;
  for (int64_t i = 0; i < helpers; ++i) pool.emplace_back(run);
  run();
}

}  // namespace lf
