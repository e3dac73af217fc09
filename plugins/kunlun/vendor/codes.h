// The vendor's error codes: what each is called, and what the caller can do next. xpu_strerror is inline in the
// vendor's header and exported nowhere, so the table is ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hardware/native_failure.h"

namespace lf::kunlun {

constexpr int kNoDevice = 703, kInvalidDevice = 701, kBusy = 716;

struct VendorCode {
  int code;               // positive
  int32_t meaning;        // LF_E_...
  bool is_beyond_repair;  // the runtime answers nothing sensible from here on: only a new process helps
  std::string_view name;
};

// Of either sign: published headers and a real build disagree about it.
VendorCode describe(int code) noexcept;

// A call of the vendor's runtime failed.
class VendorFailure : public hardware::NativeFailure {
 public:
  VendorFailure(int32_t meaning, int native, const std::string& message)
      : NativeFailure(meaning, native, "xre", message) {}
};

}  // namespace lf::kunlun
