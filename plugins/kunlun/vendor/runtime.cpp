#include "vendor/runtime.h"

#include <fmt/format.h>

namespace lf::kunlun {

const std::vector<std::string>& vendor_library_names() {
  static const std::vector<std::string> names = {"libxpurt.so", "libxpuml.so", "libbkcl.so", "libxpucuda.so"};
  return names;
}

Runtime::Runtime(const Installation& installation)
    : installation_(installation), runtime_library_(installation.runtime), xre_(runtime_library_, installation.root) {
  try {
    if (installation.management.empty())
      management_trouble_ = "there is no libxpuml.so under " + installation.root.string();
    else
      management_.emplace(hardware::Library(installation.management), installation.root);
  } catch (const sdk::Failure& failure) {
    management_trouble_ = failure.what();  // one ability less, which info() says
  }
  const auto foreign = hardware::foreign_copies(vendor_library_names(), installation.root);
  if (!foreign.empty())
    throw sdk::Failure(
        LF_E_UNSUPPORTED,
        fmt::format("this process has loaded {} beside {}; use one installation of the vendor's libraries",
                    foreign.front().string(), installation.runtime.string()));
}

void Runtime::check(int code, const std::string& what) const {
  if (code == 0) return;
  const VendorCode known = describe(code);
  const VendorFailure failure(
      known.meaning, code,
      fmt::format("{}: {} ({}){}", what, known.name, code, known.is_beyond_repair ? "; start the process anew" : ""));
  if (known.is_beyond_repair) {
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = failure;
  }
  throw failure;
}

void Runtime::require_alive() const {
  const std::lock_guard lock(mutex_);
  if (fatal_)
    throw VendorFailure(LF_E_DEVICE_LOST, fatal_->native(), fmt::format("after an earlier error: {}", fatal_->what()));
}

std::optional<std::string> Runtime::cause_of_death() const {
  const std::lock_guard lock(mutex_);
  return fatal_ ? std::optional<std::string>(fatal_->what()) : std::nullopt;
}

CurrentDevice::CurrentDevice(const Runtime& runtime, int ordinal) : runtime_(runtime), ordinal_(ordinal) {
  runtime_.check(runtime_.xre().current_device(&before_), "xpu_current_device");
  if (before_ != ordinal_)
    runtime_.check(runtime_.xre().set_device(ordinal_), fmt::format("xpu_set_device({})", ordinal_));
}

CurrentDevice::~CurrentDevice() {
  if (before_ != ordinal_) runtime_.xre().set_device(before_);
}

}  // namespace lf::kunlun
