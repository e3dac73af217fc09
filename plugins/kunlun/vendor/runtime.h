// The vendor's installation as opened in this process, and its health.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "vendor/codes.h"
#include "vendor/installation.h"
#include "vendor/management.h"
#include "vendor/xre.h"

namespace lf::kunlun {

class Runtime {
 public:
  // Throws when a library cannot be opened, lacks functions, or when the process holds a second installation.
  explicit Runtime(const Installation& installation);

  const Installation& installation() const { return installation_; }
  const Xre& xre() const { return xre_; }
  const Management* management() const { return management_ ? &*management_ : nullptr; }
  const std::string& management_trouble() const { return management_trouble_; }  // why there is none
  bool simulated() const { return xre_.simulated != nullptr; }

  // Throws VendorFailure for a code that is not 0; "what" is the call and its arguments. The first code that only a new
  // process can mend is kept, since all that follow it mislead. [any]
  void check(int code, const std::string& what) const;
  // Throws that first failure again. [any]
  void require_alive() const;
  std::optional<std::string> cause_of_death() const;

 private:
  Installation installation_;
  hardware::Library runtime_library_;
  Xre xre_;
  std::optional<Management> management_;
  std::string management_trouble_;
  mutable std::mutex mutex_;
  mutable std::optional<VendorFailure> fatal_;
};

// The files that must not be in one process twice.
const std::vector<std::string>& vendor_library_names();

// Makes a device current on this thread and the former one again at the end of the scope. Asks the runtime instead of
// remembering: others in the process may change it.
class CurrentDevice {
 public:
  CurrentDevice(const Runtime& runtime, int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Runtime& runtime_;
  int before_ = 0, ordinal_;
};

}  // namespace lf::kunlun
