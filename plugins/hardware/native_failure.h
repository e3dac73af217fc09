// A failure that a vendor's library gave a code for, and the body of an entry of the ABI, which keeps that code.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::hardware {

class NativeFailure : public sdk::Failure {
 public:
  // `domain` names the library whose code it is ("cudart"), and is a literal.
  NativeFailure(int32_t meaning, int native, const char* domain, const std::string& message)
      : Failure(meaning, message), native_(native), domain_(domain) {}
  int native() const { return native_; }
  const char* domain() const { return domain_; }

 private:
  int native_;
  const char* domain_;
};

// Exceptions become codes, and the vendor's own code is kept beside ours.
template <typename Body>
int32_t entry(lf_err* err, Body&& body) noexcept {
  if (err != nullptr) err->native = err->domain[0] = 0;
  return sdk::guard(err, [&] {
    try {
      body();
    } catch (const NativeFailure& failure) {
      if (err != nullptr) {
        err->native = failure.native();
        std::snprintf(err->domain, sizeof err->domain, "%s", failure.domain());
      }
      throw;
    }
  });
}

}  // namespace lf::hardware
