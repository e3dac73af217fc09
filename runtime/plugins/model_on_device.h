// Whether a model can compute where a job wants it. A model that reads device memory as the host's dies of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "plugins/plugins.h"

namespace lf {

// What a model plugin can do, asked in a child process; with a refusal, why it was not to be opened.
struct ModelSurvey {
  std::optional<std::string> refusal;
  uint64_t abilities = 0;  // LF_MODEL_...
};
ModelSurvey survey_model(const Candidate& candidate, std::chrono::milliseconds limit);

struct DeviceOfModel {
  std::string_view id;
  bool host = false;       // its memory is the host's
  int32_t torch_mode = 0;  // LF_TORCH_...
};

// Where a model computes: on the device, or with copies in the host's memory.
enum class ModelPlace { kDevice, kHost };

// The host where the device has memory of its own, and the model computes in the host's alone or with a LibTorch that
// does not know the device; then throws lf::Error(kConfig), naming both, unless `fallback` ([device] op_fallback =
// "warn") allows it. `abilities`: of the model's table.
ModelPlace place_of_model(const Manifest& model, uint64_t abilities, const DeviceOfModel& device, bool fallback);

// Before anything is opened in this process: both are asked in children. Of a model that does compute in device memory
// the device is not opened, which takes some tenths of a second; its LibTorch is then looked at by who opens both.
// Throws lf::Error(kConfig) also where the model plugin is refused, as PluginSet::verify does.
void require_model_on_device(const PluginSet& plugins, std::string_view model, std::string_view device, bool fallback);

}  // namespace lf
