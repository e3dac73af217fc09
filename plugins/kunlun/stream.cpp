#include "stream.h"

#include <cstring>

#include <fmt/format.h>

namespace lf::kunlun {

Stream::~Stream() {
  try {
    device_.destroy_stream(native_);
  } catch (const sdk::Failure&) {  // its error was the stream's last; whoever waited for it has had it
  }
}

Event::Event(Device& device) : device_(device) {
  const Runtime& runtime = device_.runtime();
  runtime.require_alive();
  const CurrentDevice current(runtime, device_.ordinal());
  runtime.check(runtime.xre().event_create(&native_), "xpu_event_create");
}

Event::~Event() {
  if (!device_.runtime().cause_of_death()) device_.runtime().xre().event_destroy(native_);
}

void Event::record(XpuStream stream) {
  const Runtime& runtime = device_.runtime();
  const CurrentDevice current(runtime, device_.ordinal());
  runtime.check(runtime.xre().event_record(native_, stream), "xpu_event_record");
  recorded_ = true;
}

void Event::make_wait(XpuStream stream, Device& of_stream) const {
  if (!recorded_) return;
  const Runtime& runtime = device_.runtime();
  const CurrentDevice current(runtime, of_stream.ordinal());
  of_stream.note_work(stream);
  runtime.check(runtime.xre().stream_wait_event(stream, native_), "xpu_stream_wait_event");
}

bool Event::done() const {
  const Runtime& runtime = device_.runtime();
  if (runtime.xre().event_query == nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED, "kunlun: this runtime has no xpu_event_query; wait for the event instead");
  if (!recorded_) return true;
  const CurrentDevice current(runtime, device_.ordinal());
  const int code = runtime.xre().event_query(native_);
  if (std::abs(code) == kBusy) return false;
  runtime.check(code, "xpu_event_query");
  return true;
}

void Event::wait() const {
  if (!recorded_) return;
  const Runtime& runtime = device_.runtime();
  const CurrentDevice current(runtime, device_.ordinal());
  runtime.check(runtime.xre().event_wait(native_), "xpu_event_wait");
}

void wait_for_stream(Device& device, XpuStream stream) {
  const Runtime& runtime = device.runtime();
  runtime.require_alive();
  const CurrentDevice current(runtime, device.ordinal());
  runtime.check(runtime.xre().wait(stream), "xpu_wait");
}

void copy_now(Device& device, void* to, const void* from, uint64_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  device.settle();
  const Runtime& runtime = device.runtime();
  runtime.require_alive();
  const CurrentDevice current(runtime, device.ordinal());
  runtime.check(runtime.xre().memcpy(to, from, bytes, kind), fmt::format("xpu_memcpy of {} bytes", bytes));
}

void copy(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, XpuStream stream) {
  if (bytes == 0) return;
  if (on != nullptr) on->runtime().require_alive();
  if (to.device == nullptr && from.device == nullptr) {
    if (on != nullptr && stream != nullptr) wait_for_stream(*on, stream);
    std::memcpy(to.memory, from.memory, bytes);
    return;
  }
  const Runtime& runtime = on->runtime();
  const CurrentDevice current(runtime, on->ordinal());
  if (to.device != nullptr && from.device != nullptr && to.device != from.device) {
    if (runtime.xre().memcpy_peer == nullptr)
      throw sdk::Failure(LF_E_UNSUPPORTED,
                         "kunlun: this runtime copies nothing between two devices; go through the host");
    if (stream != nullptr) {
      runtime.check(runtime.xre().wait(stream), "xpu_wait");
    } else {  // both default streams: what was enqueued on either may write these bytes
      wait_for_stream(*to.device, nullptr);
      wait_for_stream(*from.device, nullptr);
    }
    runtime.check(
        runtime.xre().memcpy_peer(to.device->ordinal(), to.memory, from.device->ordinal(), from.memory, bytes),
        fmt::format("xpu_memcpy_peer of {} bytes, kunlun:{} to kunlun:{}", bytes, from.device->ordinal(),
                    to.device->ordinal()));
    return;
  }
  on->note_work(stream);
  const CopyKind kind = to.device == nullptr ? kDeviceToHost : from.device == nullptr ? kHostToDevice : kDeviceToDevice;
  runtime.check(runtime.xre().memcpy_async(to.memory, from.memory, bytes, kind, stream),
                fmt::format("xpu_memcpy_async of {} bytes", bytes));
}

}  // namespace lf::kunlun
