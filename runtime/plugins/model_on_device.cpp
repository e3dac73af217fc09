#include "plugins/model_on_device.h"

#include "core/error.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_api/model.h"
#include "plugins/device_choice.h"

namespace lf {
namespace {

constexpr std::chrono::seconds kModelLimit{10}, kDeviceLimit{60};

bool in_device_memory(uint64_t abilities) { return (abilities & LF_MODEL_DEVICE_MEMORY) != 0; }

}  // namespace

void require_model_on_device(const Manifest& model, uint64_t abilities, const DeviceOfModel& device) {
  if (device.host) return;
  if (!in_device_memory(abilities))
    fail(Exit::kConfig,
         "model.family: expected a model that computes in the memory of device {}, got {}, which computes in the "
         "host's alone (it does not state LF_MODEL_DEVICE_MEMORY; device.op_fallback is of single operators and does "
         "not help); take LF_DEVICE=cpu, or a plugin that states it",
         device.id, model.id);
  if (model.torch != "none" && device.torch_mode == LF_TORCH_NONE)
    fail(Exit::kConfig,
         "model.family: expected a model that computes on device {} by itself, got {}, which computes with LibTorch, "
         "and the device's plugin makes it known to no LibTorch; take LF_DEVICE=cpu, or a plugin without LibTorch",
         device.id, model.id);
}

void require_model_on_device(const PluginSet& plugins, std::string_view model, std::string_view device) {
  const Candidate& family = plugins.find(PluginKind::kModel, model);
  const ModelSurvey asked = survey_model(family, kModelLimit);
  if (asked.refusal) fail(Exit::kConfig, "{}: {}", family.path.string(), *asked.refusal);
  if (in_device_memory(asked.abilities)) return;
  const DeviceSurvey one =
      survey_device(plugins.find(PluginKind::kDevice, device), kDeviceLimit, 1, DeviceLook::kOpenOne);
  if (one.count == 0) fail(Exit::kUnavailable, "device {}: {}", device, one.reason);
  require_model_on_device(*family.manifest, asked.abilities,
                          {.id = device, .host = one.host, .torch_mode = one.torch_mode});
}

}  // namespace lf
