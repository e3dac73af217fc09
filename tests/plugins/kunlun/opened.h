// The plugin as a host opens it, with what tests do to devices all the time.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "children.h"
#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/entry.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::testing {

constexpr int kSimulatedBus = 0x10;  // of the first simulated card

inline std::string home(const std::string& kind) { return std::string(LF_BUILD_DIR) + "/simulators/kunlun/" + kind; }

class Opened {
 public:
  // Loads and starts NAME.lfplugin.so; aborts the process where that fails.
  explicit Opened(const std::string& name = "kunlun");
  ~Opened();  // stops it, unless that was done

  const lf_device_api& device() const { return *device_; }
  const lf_collective_api& collective() const { return *collective_; }
  void stop();
  std::string reason() const;  // why probe finds nothing; "" where it finds something
  std::string log() const { return log_; }
  void set_option(const std::string& name, const std::string& json) { options_[name] = json; }

  lf_device open(uint32_t ordinal = 0);
  lf_device_info info(lf_device device);
  lf_memory_stats stats(lf_device device);
  void* allocate(lf_device device, uint64_t bytes, int32_t kind = LF_MEMORY_MAIN);
  // Enqueued; the values are kept, as the copy may read them later.
  template <typename T>
  void* upload(lf_device device, const std::vector<T>& values, lf_stream stream = nullptr) {
    const auto kept = std::make_shared<const std::vector<T>>(values);
    kept_.push_back(kept);
    void* memory = allocate(device, kept->size() * sizeof(T));
    ok(device_->copy(device, memory, nullptr, kept->data(), kept->size() * sizeof(T), stream, &err));
    return memory;
  }
  template <typename T>
  std::vector<T> download(lf_device device, const void* memory, size_t n) {
    std::vector<T> values(n);
    ok(device_->copy(nullptr, values.data(), device, memory, n * sizeof(T), nullptr, &err));
    ok(device_->synchronize(device, &err));
    return values;
  }
  lf_stream stream(lf_device device);
  lf_event event(lf_device device);

  // The code of a call that should have succeeded: a failure prints the plugin's message.
  void ok(int32_t code) { EXPECT_EQ(code, LF_OK) << err.message; }
  std::string message() const { return err.message; }

  lf_err err = sdk::make_err();

 private:
  const lf_plugin* plugin_;
  const lf_device_api* device_;
  const lf_collective_api* collective_;
  lf_host host_;
  bool stopped_ = false;
  std::string log_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::map<std::string, std::string> options_;
};

}  // namespace lf::testing
