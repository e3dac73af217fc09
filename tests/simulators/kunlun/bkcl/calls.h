// Calls on their way to streams: one by one, or together at the end of a group, where sends and receives run side by
// side.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "communicator.h"

namespace lf::sim {

// A collective, or transfers that may run beside those of other calls.
struct Call {
  std::shared_ptr<Communicator> ranks;
  void* stream;
  std::function<bool()> collective;  // false: it failed
  std::vector<Transfer> transfers;
};

// Groups are the thread's. False: the runtime refused, or no group was open.
bool submit(Call call);
void group_start();
bool group_end();

}  // namespace lf::sim
