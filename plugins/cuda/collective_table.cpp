#include "hardware/collective_table.h"

#include "plugin.h"

namespace lf::cuda {
namespace {

struct Collectives : Entries {
  static std::string new_id() { return new_communicator_id(plugin().nccl()); }
  static std::unique_ptr<Communicator> join(Device& device, const lf_communicator_config& config) {
    return std::make_unique<Communicator>(device, plugin().nccl(), config);
  }
};

}  // namespace

const lf_collective_api kCollectiveTable = hardware::CollectiveEntries<Collectives>::table();

}  // namespace lf::cuda
