// The device template as built against another version of the headers: with members that this one does not have yet
// (LF_SKEW_NEWER), or without those behind `fill`, where there is then no table to read.
#define lf_plugin_entry template_entry
#include "device.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include "skewed.h"

namespace {

#ifdef LF_SKEW_NEWER
const auto kSkewedTable = lf::test::newer(kTable);
#else
const auto kSkewedTable = lf::test::older<offsetof(lf_device_api, stream_new)>(kTable);
#endif
const lf::sdk::Interface kSkewedInterfaces[] = {{LF_DEVICE_INTERFACE, &kSkewedTable}};
const auto kSkewedPlugin =
    lf::test::newer(lf::sdk::make_plugin<kSkewedInterfaces>(LF_KIND_DEVICE, "template_cpp", "1"));

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kSkewedPlugin.known; }
