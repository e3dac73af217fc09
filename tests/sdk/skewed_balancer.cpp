// The balancer template as built against a later version of the headers.
#define lf_plugin_entry template_entry
#include "balancer.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include "skewed.h"

namespace {

const auto kSkewedTable = lf::test::newer(kTable);
const lf::sdk::Interface kSkewedInterfaces[] = {{LF_BALANCER_INTERFACE, &kSkewedTable}};
const auto kSkewedPlugin =
    lf::test::newer(lf::sdk::make_plugin<kSkewedInterfaces>(LF_KIND_BALANCER, "template_cpp", "1"));

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kSkewedPlugin.known; }
