// What a device plugin lends the host by handles, and how the entries of its tables find it.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hardware/handle_table.h"
#include "hardware/native_failure.h"
#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/device.h"

namespace lf::hardware {

// Streams, events and communicators have device(), streams native().
template <typename DeviceType, typename StreamType, typename EventType, typename CommunicatorType>
class Holdings {
 public:
  using Device = DeviceType;
  using Event = EventType;

  explicit Holdings(const std::string& vendor)
      : devices(vendor + " device"),
        streams(vendor + " stream"),
        events(vendor + " event"),
        communicators(vendor + " communicator"),
        vendor_(vendor) {}

  void close(lf_device handle) {  // with all that was made on it
    const std::unique_ptr<Device> device = devices.take(handle);
    drop([&](const auto& object) { return &object.device() == device.get(); });
  }

  // A null stream is the default stream of the only open device; with several open devices it needs one named.
  Device& device_of(lf_stream stream, Device* named) const {
    if (stream != nullptr) return streams.find(stream).device();
    if (named == nullptr) named = devices.only();
    if (named == nullptr)
      throw sdk::Failure(LF_E_INVALID,
                         vendor_ + ": the null stream is a device's default stream, and several devices are open");
    return *named;
  }

  auto native(lf_stream stream) const {
    using Native = decltype(streams.find(stream).native());
    return stream == nullptr ? Native{} : streams.find(stream).native();
  }

  HandleTable<Device> devices;
  HandleTable<StreamType> streams;
  HandleTable<Event> events;
  HandleTable<CommunicatorType> communicators;

 protected:
  ~Holdings() = default;
  void close_all() {  // before what they lean on goes: a plugin's destructor calls it
    const auto all = [](const auto&) { return true; };
    drop(all);
    devices.take_if(all);
  }

 private:
  template <typename Predicate>
  void drop(const Predicate& chosen) {  // communicators first: all lean on devices, and some on events
    communicators.take_if(chosen);
    events.take_if(chosen);
    streams.take_if(chosen);
  }

  std::string vendor_;
};

// What the tables of hardware/ need to know of a plugin: a Holdings, and where the one instance of it is.
template <typename PluginType, PluginType& (*kPlugin)()>
struct EntriesOf {
  using Device = typename PluginType::Device;
  using Event = typename PluginType::Event;
  static PluginType& plugin() { return kPlugin(); }
  template <typename Body>
  static int32_t entry(lf_err* err, Body&& body) noexcept {
    return hardware::entry(err, std::forward<Body>(body));
  }
  static auto native(lf_stream stream) { return kPlugin().native(stream); }
};

// A variable of the process's environment. One of our own that is empty (LF_CUDA_HOME=$UNSET) is not set; to a vendor's
// it may be a value.
inline std::optional<std::string> from_process(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || (value[0] == '\0' && std::string_view(name).starts_with("LF_"))) return std::nullopt;
  return value;
}

}  // namespace lf::hardware
