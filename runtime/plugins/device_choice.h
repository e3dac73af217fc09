// Which device a job runs on. What was named is taken, or nothing is: there is no second choice.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lf/plugin_api/device.h"
#include "plugins/plugins.h"

namespace lf {

// What a device plugin finds on this machine. With no devices, `reason` says why: in the plugin's words, or that it was
// refused, crashed or did not answer.
struct DeviceSurvey {
  uint32_t count = 0;
  bool refused = false;       // the plugin is at fault: it could not be opened as what it says it is, or crashed
  bool host = false;          // of one that was opened: its memory is the host's, and any number of workers share it
  uint64_t memory_bytes = 0;  // of one that was opened; 0: it does not say
  int32_t torch_mode = LF_TORCH_NONE;  // of one that was opened
  std::string reason;
};

// What is asked for beside the number of devices. On a card, opening one takes some tenths of a second, which the
// start of a run spares: each worker opens its own.
enum class DeviceLook { kCount, kOpenOne };

// Opens the candidate in a child process, starts it and asks. Driver libraries are loaded there, not here. `workers`:
// where there are fewer devices, one is opened to see whether it can be shared.
DeviceSurvey survey_device(const Candidate& candidate, std::chrono::milliseconds limit, uint32_t workers = 1,
                           DeviceLook look = DeviceLook::kCount);

struct DeviceChoice {
  std::string id;
  std::string reason;  // one line for the run record: who asked, and what was found
  // With kOpenOne:
  bool host = false;          // it is the host itself, not a card
  uint64_t memory_bytes = 0;  // of one device; 0: it does not say
  int32_t torch_mode = LF_TORCH_NONE;
};

constexpr std::string_view kAnyDevice = "auto";

// How a reason tells who named the device. `origin`: of the option, as in ResolvedJob (config/config.h).
std::string device_named_by(std::string_view origin);

// `wanted`: a plugin's id, or kAnyDevice: the one kind of device other than "cpu" that is there, or "cpu" where there
// is none. `workers` on this machine each need a device of their own, if it is not the host. `named_by`: how the reason
// tells where a plugin's id came from, "named by the job". Throws
// lf::Error(kUnavailable) that says what was searched and why each candidate was not taken; with kAnyDevice also where
// two kinds are there; and where there are fewer devices than workers.
DeviceChoice choose_device(const PluginSet& plugins, std::string_view wanted, int workers, std::string_view named_by,
                           DeviceLook look = DeviceLook::kCount);

}  // namespace lf
