// What a device's table must hold (lf/plugin_api/device.h).
#pragma once

#include <string>

#include "lf/plugin_api/device.h"

namespace lf {

// "copy, fill"; empty where all that is required is there.
std::string missing_functions(const lf_device_api* api);

}  // namespace lf
