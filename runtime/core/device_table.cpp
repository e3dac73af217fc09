#include "core/device_table.h"

#include "lf/plugin_sdk/guard.hpp"

namespace lf {

std::string missing_functions(const lf_device_api* api) {
  std::string missing;
#define LF_REQUIRE(member) \
  if (!LF_HAS(api, member)) missing += std::string(missing.empty() ? "" : ", ") + #member
  LF_REQUIRE(probe);
  LF_REQUIRE(open);
  LF_REQUIRE(close);
  LF_REQUIRE(info);
  LF_REQUIRE(bind_thread);
  LF_REQUIRE(synchronize);
  LF_REQUIRE(memory_alloc);
  LF_REQUIRE(memory_free);
  LF_REQUIRE(memory_stats);
  LF_REQUIRE(copy);
  LF_REQUIRE(fill);
#undef LF_REQUIRE
  return missing;
}

}  // namespace lf
