#include "plugins/model_on_device.h"

#include "core/error.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_api/model.h"
#include "plugins/device_choice.h"

namespace lf {
namespace {

bool in_device_memory(uint64_t abilities) { return (abilities & LF_MODEL_DEVICE_MEMORY) != 0; }

}  // namespace

ModelPlace place_of_model(const Manifest& model, uint64_t abilities, const DeviceOfModel& device, bool fallback) {
  if (device.host) return ModelPlace::kDevice;
  std::string why;
  if (!in_device_memory(abilities))
    why = "computes in the host's alone (it does not state LF_MODEL_DEVICE_MEMORY)";
  else if (model.torch != "none" && device.torch_mode == LF_TORCH_NONE)
    why = "computes with LibTorch, which the device's plugin does not make it known to";
  if (why.empty()) return ModelPlace::kDevice;
  if (fallback) return ModelPlace::kHost;
  fail(Exit::kConfig,
       "model.family: expected a model that computes in the memory of device {}, got {}, which {}; take LF_DEVICE=cpu, "
       "another plugin, or op_fallback = \"warn\" under [device], which copies to the host and back for every "
       "micro-batch",
       device.id, model.id, why);
}

void require_model_on_device(const PluginSet& plugins, std::string_view model, std::string_view device, bool fallback) {
  const Candidate& family = plugins.find(PluginKind::kModel, model);
  const ModelSurvey asked = survey_model(family, kProbeLimit);
  if (asked.refusal) fail(Exit::kConfig, "{}: {}", family.path.string(), *asked.refusal);
  if (fallback || in_device_memory(asked.abilities)) return;
  const DeviceSurvey one =
      survey_device(plugins.find(PluginKind::kDevice, device), kProbeLimit, 1, DeviceLook::kOpenOne);
  if (one.count == 0) fail(Exit::kUnavailable, "device {}: {}", device, one.reason);
  place_of_model(*family.manifest, asked.abilities, {.id = device, .host = one.host, .torch_mode = one.torch_mode},
                 fallback);
}

}  // namespace lf
