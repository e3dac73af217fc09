#include "calls.h"

#include <map>
#include <utility>

#include "xpu/runtime.h"

namespace lf::sim {
namespace {

struct Group {
  int depth = 0;
  std::vector<Call> calls;
};
thread_local Group group;

using Work = std::function<bool()>;

bool enqueue(std::shared_ptr<Communicator> ranks, void* stream, Work work) {
  struct Job {
    std::shared_ptr<Communicator> ranks;
    Work work;
  };
  const auto run = [](void* argument) -> int {
    const std::unique_ptr<Job> job(static_cast<Job*>(argument));
    if (job->work() || job->ranks->aborted()) return 0;  // an abort frees the stream; its buffers hold anything
    return -XPUERR_TIMEOUT;
  };
  auto job = std::make_unique<Job>(Job{std::move(ranks), std::move(work)});
  if (lf_sim_xpu_enqueue(stream, run, job.get()) != 0) return false;
  job.release();
  return true;
}

bool launch(std::vector<Call> calls) {
  std::map<std::pair<std::shared_ptr<Communicator>, void*>, std::vector<Transfer>> transfers;
  for (Call& call : calls) {
    if (call.collective) {
      if (!enqueue(call.ranks, call.stream, std::move(call.collective))) return false;
    } else {
      auto& together = transfers[{call.ranks, call.stream}];
      together.insert(together.end(), call.transfers.begin(), call.transfers.end());
    }
  }
  for (auto& [where, together] : transfers) {
    const auto ranks = where.first;
    if (!enqueue(ranks, where.second, [ranks, together = std::move(together)] { return ranks->exchange(together); }))
      return false;
  }
  return true;
}

}  // namespace

bool submit(Call call) {
  if (group.depth > 0) {
    group.calls.push_back(std::move(call));
    return true;
  }
  std::vector<Call> one;
  one.push_back(std::move(call));
  return launch(std::move(one));
}

void group_start() { ++group.depth; }

bool group_end() {
  if (group.depth == 0) return false;
  if (--group.depth > 0) return true;
  return launch(std::exchange(group.calls, {}));
}

}  // namespace lf::sim
