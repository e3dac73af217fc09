// Test bodies in processes of their own: the simulator reads its environment once per process, ranks are processes, and
// some bodies are meant to die.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lf::testing {

using Environment = std::map<std::string, std::string>;

struct Rank {
  int rank, size;
  // Rank 0's bytes, on every rank.
  std::function<std::string(const std::string& mine)> from_rank_0;
};

// Runs `body` in `size` processes at once. How each ended: 0 when all expectations held, 1 when one did not, 128 + n by
// signal n, -1 when it had to be killed after `seconds`. The caller has loaded no plugin and started no thread.
std::vector<int> run_ranks(int size, const Environment& environment, const std::function<void(const Rank&)>& body,
                           int seconds = 60);

// One process, which must end well.
void run_alone(const Environment& environment, const std::function<void()>& body);

}  // namespace lf::testing
