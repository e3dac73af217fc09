// Kunlun cards over the vendor's runtime (XRE) and collectives (BKCL), both opened at run time.
#include "plugin.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "hardware/bounded.h"
#include "lf/plugin_sdk/plugin.hpp"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"device","id":"kunlun","version":"0.1.0","interfaces":["lf.device/1","lf.collective/1"],"torch":"none","parts":["kunlun_torch_*.so"]})");

namespace lf::kunlun {
namespace {

std::unique_ptr<Plugin>& instance() {
  static std::unique_ptr<Plugin> plugin;
  return plugin;
}

constexpr std::chrono::milliseconds kProbeLimit{20'000};

std::chrono::milliseconds probe_limit(const Environment& environment) {
  const auto text = environment("LF_KUNLUN_PROBE_TIMEOUT_MS");
  if (!text) return kProbeLimit;
  int milliseconds = 0;
  const auto [end, wrong] = std::from_chars(text->data(), text->data() + text->size(), milliseconds);
  if (wrong != std::errc{} || end != text->data() + text->size() || milliseconds < 1)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("LF_KUNLUN_PROBE_TIMEOUT_MS: expected milliseconds from 1 on, got \"{}\"", *text));
  return std::chrono::milliseconds(milliseconds);
}

// The vendor's manual wants it for events on KL3, and its runtime reads it when it is opened.
void enable_events(const Environment& environment) {
  constexpr const char* kVariable = "XPU_EVENT_KL3_ENABLE";
  if (!environment(kVariable)) setenv(kVariable, "1", 0);
}

std::string no_cards(const Runtime& runtime, int code, const Environment& environment) {
  std::error_code ignored;
  std::string reason = fmt::format("{} reports no device", runtime.installation().runtime.string());
  if (code != 0) reason += fmt::format(": {} ({})", describe(code).name, code);
  if (const auto mask = environment("XPU_VISIBLE_DEVICES"))
    reason += fmt::format("; XPU_VISIBLE_DEVICES is \"{}\"", *mask);
  if (!std::filesystem::exists("/dev/xpu0", ignored)) reason += "; there is no /dev/xpu0: is the driver loaded?";
  return reason;
}

}  // namespace

Plugin& plugin() {
  if (!instance()) throw sdk::Failure(LF_E_INVALID, "kunlun: the plugin was not started");
  return *instance();
}

Plugin::Plugin(const lf_host* host, Environment environment)
    : Holdings("kunlun"), host_(host), environment_(std::move(environment)), torch_(host) {}

Plugin::~Plugin() {
  uint64_t calls = 0;
  std::string list;
  const auto fallen = torch_.fallen_operators();
  for (const auto& [name, count] : fallen) {
    calls += count;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, count);
  }
  if (calls > 0)
    log(LF_LOG_WARNING, fmt::format("kunlun: {} calls of {} operators ran on the CPU: {}", calls, fallen.size(), list));
  close_all();
}

std::shared_ptr<const Runtime> Plugin::runtime() {
  const std::lock_guard lock(mutex_);
  if (runtime_) return runtime_;
  std::string searched;
  const auto installation = find_installation(environment_, searched);
  if (!installation) throw sdk::Failure(LF_E_NO_DEVICE, "kunlun: " + searched);
  enable_events(environment_);
  runtime_ = std::make_shared<const Runtime>(*installation);
  log(runtime_->simulated() ? LF_LOG_WARNING : LF_LOG_INFO,
      fmt::format("kunlun: {}{}", runtime_->installation().runtime.string(),
                  runtime_->simulated() ? ": SIMULATED, there is no card behind it" : ""));
  if (!runtime_->management_trouble().empty())
    log(LF_LOG_INFO, "kunlun: free memory is not known: " + runtime_->management_trouble());
  return runtime_;
}

uint32_t Plugin::probe(std::string& reason) {
  struct Answer {
    int count = 0;
    std::string reason;
  };
  const std::function<Answer()> ask = [this]() -> Answer {
    Answer answer;
    try {
      const auto runtime = this->runtime();
      const int code = runtime->xre().device_count(&answer.count);
      if (code != 0 || answer.count <= 0) answer = {0, no_cards(*runtime, code, environment_)};
    } catch (const std::exception& failure) {
      answer = {0, failure.what()};
    }
    return answer;
  };
  const auto limit = probe_limit(environment_);
  const auto answer = hardware::call_within<Answer>(limit, ask);
  reason = answer ? answer->reason
                  : fmt::format("the vendor's runtime did not answer within {} ms; look at dmesg and xpu-smi",
                                limit.count());
  return answer ? static_cast<uint32_t>(answer->count) : 0;
}

const Bkcl& Plugin::bkcl() {
  const auto opened = runtime();
  const std::lock_guard lock(mutex_);
  if (!bkcl_) {
    bkcl_ = open_bkcl(opened->installation(), environment_);
    log(LF_LOG_INFO,
        fmt::format("kunlun: collectives of {} through {}", opened->installation().collectives.string(), bkcl_->how));
  }
  return *bkcl_;
}

bool Plugin::collectives_beside_compute() const {
  const std::string text = environment_("LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE").value_or("0");
  if (text != "0" && text != "1")
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE: expected 0 or 1, got \"{}\"", text));
  return text == "1";
}

void Plugin::log(int32_t level, const std::string& text) const {
  if (LF_HAS(host_, log)) host_->log(host_, level, sdk::str(text));
}

namespace {

int32_t start(const lf_host* host, lf_err* err) {
  return entry(err, [&] { instance() = std::make_unique<Plugin>(host, hardware::from_process); });
}

int32_t stop(lf_err* err) {
  return entry(err, [&] {
    plugin();
    instance().reset();
  });
}

const sdk::Interface kInterfaces[] = {{LF_DEVICE_INTERFACE, &kDeviceTable},
                                      {LF_COLLECTIVE_INTERFACE, &kCollectiveTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_DEVICE, "kunlun", "0.1.0", start, stop);

}  // namespace
}  // namespace lf::kunlun

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::kunlun::kPlugin; }
