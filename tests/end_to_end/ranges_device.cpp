// The device template with profiler ranges: "+NAME" and "-", a line each, in the file that LF_TEST_RANGES names.
#define lf_plugin_entry template_entry
#include "device.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include <fstream>

namespace {

void note(std::string_view line) {
  if (const char* file = std::getenv("LF_TEST_RANGES")) std::ofstream(file, std::ios::app) << line << "\n";
}

int32_t range_push(lf_device device, lf_str name, lf_err* err) {
  return guard(err, [&] {
    of(device);
    note("+" + std::string(lf::sdk::view(name)));
  });
}

int32_t range_pop(lf_device device, lf_err* err) {
  return guard(err, [&] {
    of(device);
    note("-");
  });
}

const lf_device_api kRangesTable = [] {
  lf_device_api api = kTable;
  api.range_push = range_push;
  api.range_pop = range_pop;
  return api;
}();
const lf::sdk::Interface kRangesInterfaces[] = {{LF_DEVICE_INTERFACE, &kRangesTable}};
const lf_plugin kRangesPlugin = lf::sdk::make_plugin<kRangesInterfaces>(LF_KIND_DEVICE, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kRangesPlugin; }
