// What both sides of the ABI need in C++: errors to and from lf_err, strings, sinks, headers. Header-only, C++20.
//
// Exceptions never cross: an entry of a table is `return guard(err, [&] { ... });`, and a call of the other side's
// table is `check(table->f(..., &err), err)`.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lf/plugin_api/abi.h"

namespace lf::sdk {

// Thrown by a plugin's own code to choose the code that the other side sees.
class Failure : public std::runtime_error {
 public:
  Failure(int32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int32_t code() const { return code_; }

 private:
  int32_t code_;
};

inline void set_error(lf_err* err, int32_t code, std::string_view message) noexcept {
  if (err == nullptr) return;
  err->code = code;
  const size_t room = sizeof(err->message) - 1;
  const size_t n = std::min(message.size(), room);
  std::memcpy(err->message, message.data(), n);
  err->message[n] = '\0';
}

// Runs `body` and turns whatever it throws into an error code and a text. Marked so that it is never inlined into a
// noexcept caller without its own handler. LibTorch's exceptions carry a backtrace after the first line; it is cut.
template <typename Body>
int32_t guard(lf_err* err, Body&& body) noexcept {
  try {
    body();
    return LF_OK;
  } catch (const Failure& failure) {
    set_error(err, failure.code(), failure.what());
    return failure.code();
  } catch (const std::bad_alloc&) {
    set_error(err, LF_E_NOMEM_HOST, "out of host memory");
    return LF_E_NOMEM_HOST;
  } catch (const std::exception& other) {
    std::string_view text = other.what();
    if (const size_t trace = text.find("\nException raised from"); trace != text.npos) text = text.substr(0, trace);
    set_error(err, LF_E_EXCEPTION, text);
    return LF_E_EXCEPTION;
  } catch (...) {
    set_error(err, LF_E_EXCEPTION, "an exception that is no std::exception");
    return LF_E_EXCEPTION;
  }
}

inline lf_err make_err() noexcept {
  lf_err err{};
  err.size = sizeof err;
  return err;
}

// Throws what a call of the other side reported.
inline void check(int32_t code, const lf_err& err) {
  if (code == LF_OK) return;
  const std::string_view text{err.message, strnlen(err.message, sizeof err.message)};
  throw Failure(code, text.empty() ? "error " + std::to_string(code) + " without a message" : std::string(text));
}

template <typename T>
T with_header() noexcept {  // a zeroed struct or table with its size filled in
  T value{};
  value.h = lf_hdr{sizeof(T), LF_ABI_MAJOR, LF_ABI_MINOR};
  return value;
}

inline std::string_view view(lf_str s) noexcept {
  return s.data == nullptr ? std::string_view{} : std::string_view{s.data, s.size};
}
inline lf_str str(std::string_view s) noexcept { return lf_str{s.data(), s.size()}; }

// A sink that appends to a std::string; keep both alive for the call.
inline lf_sink string_sink(std::string& out) noexcept {
  return lf_sink{&out, [](void* context, const void* bytes, uint64_t size) -> int32_t {
                   try {
                     static_cast<std::string*>(context)->append(static_cast<const char*>(bytes), size);
                     return LF_OK;
                   } catch (...) {
                     return LF_E_NOMEM_HOST;
                   }
                 }};
}

inline void put(const lf_sink& sink, const void* bytes, size_t size) {
  if (const int32_t code = sink.put(sink.context, bytes, size); code != LF_OK)
    throw Failure(code, "the receiver of variable-size output refused it");
}
inline void put(const lf_sink& sink, std::string_view text) { put(sink, text.data(), text.size()); }

}  // namespace lf::sdk
