// The entry of the plugin.
#include "lf/plugin_sdk/plugin.hpp"

#include <nlohmann/json.hpp>

#include "family/entry.h"
#include "pi05/model.h"

#define LF_PI05_VERSION "0.1.0"
LF_PLUGIN_MANIFEST("{\"abi\":\"0.1\",\"kind\":\"model\",\"id\":\"pi05\",\"version\":\"" LF_PI05_VERSION
                   "\",\"interfaces\":[\"lf.model/1\",\"lf.model_files/1\"],\"torch\":\"" LF_TORCH_BUILD
                   "\",\"parts\":[\"liblfparquet.so\",\"../lib/liblfparquet.so\"]}");

namespace {

const lf_model_api kTable = lf::family::model_table<&lf::pi05::create>();
const lf_model_files_api kFiles = lf::family::model_files_table();
const lf::sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}, {LF_MODEL_FILES_INTERFACE, &kFiles}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "pi05", LF_PI05_VERSION);

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
