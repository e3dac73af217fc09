// The host that the kit lends to a plugin: groups of one, painted pictures, and a memory of what it was told.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lf/plugin_api/media.h"
#include "lf/plugin_api/parallel.h"

namespace lf::kit {

class KitHost {
 public:
  KitHost();
  KitHost(const KitHost&) = delete;
  KitHost& operator=(const KitHost&) = delete;

  const lf_host* table() const { return &host_; }
  // Told by the plugin: a unit of a stage, an event, a micro-batch.
  std::function<int32_t(lf_stage, uint32_t unit, int32_t what, uint64_t micro_batch)> on_unit;

 private:
  lf_host host_{};
  lf_parallel_host parallel_{};
  lf_media_host media_{};
};

}  // namespace lf::kit
