#include "opened.h"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace lf::testing {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "cannot open the plugin: %s\n", what);
  std::abort();
}

}  // namespace

Opened::Opened(const std::string& name) : host_(sdk::with_header<lf_host>()) {
  const std::string path = LF_BUILD_DIR "/plugins/" + name + ".lfplugin.so";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) give_up(dlerror());
  plugin_ =
      reinterpret_cast<decltype(&lf_plugin_entry)>(dlsym(handle, LF_PLUGIN_ENTRY_NAME))(LF_ABI_MAJOR, LF_ABI_MINOR);
  device_ = static_cast<const lf_device_api*>(plugin_->get_interface(sdk::str(LF_DEVICE_INTERFACE)));
  collective_ = static_cast<const lf_collective_api*>(plugin_->get_interface(sdk::str(LF_COLLECTIVE_INTERFACE)));
  host_.context = this;
  host_.log = [](const lf_host* host, int32_t, lf_str text) {
    static_cast<Opened*>(host->context)->log_ += std::string(sdk::view(text)) + "\n";
  };
  host_.option = [](const lf_host* host, lf_str name, lf_sink json, lf_err*) -> int32_t {
    const auto& options = static_cast<Opened*>(host->context)->options_;
    const auto found = options.find(std::string(sdk::view(name)));
    return found == options.end() ? LF_E_INVALID : json.put(json.context, found->second.data(), found->second.size());
  };
  if (plugin_->start(&host_, &err) != LF_OK) give_up(err.message);
}

Opened::~Opened() {
  if (!stopped_) stop();
}

void Opened::stop() {
  stopped_ = true;
  lf_err last = sdk::make_err();
  EXPECT_EQ(plugin_->stop(&last), LF_OK) << last.message;
}

std::string Opened::reason() const {
  std::string why;
  uint32_t count = 0;
  lf_err problem = sdk::make_err();
  EXPECT_EQ(device_->probe(&count, sdk::string_sink(why), &problem), LF_OK) << problem.message;
  EXPECT_EQ(count == 0, !why.empty()) << "no device needs a reason, and only then";
  return why;
}

lf_device Opened::open(uint32_t ordinal) {
  lf_device device = nullptr;
  ok(device_->open(ordinal, &device, &err));
  if (device == nullptr) give_up(err.message);
  return device;
}

lf_device_info Opened::info(lf_device device) {
  auto info = sdk::with_header<lf_device_info>();
  ok(device_->info(device, &info, &err));
  return info;
}

lf_memory_stats Opened::stats(lf_device device) {
  auto stats = sdk::with_header<lf_memory_stats>();
  ok(device_->memory_stats(device, &stats, &err));
  return stats;
}

void* Opened::allocate(lf_device device, uint64_t bytes, int32_t kind) {
  void* memory = nullptr;
  ok(device_->memory_alloc(device, bytes, kind, &memory, &err));
  return memory;
}

lf_stream Opened::stream(lf_device device) {
  lf_stream stream = nullptr;
  ok(device_->stream_new(device, 0, &stream, &err));
  return stream;
}

lf_event Opened::event(lf_device device) {
  lf_event event = nullptr;
  ok(device_->event_new(device, 0, &event, &err));
  return event;
}

}  // namespace lf::testing
