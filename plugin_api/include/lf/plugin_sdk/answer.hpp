// Structs that the other side of the ABI filled in the header of, and wants filled.
#pragma once

#include <algorithm>
#include <cstring>

#include "lf/plugin_api/abi.h"

namespace lf::sdk {

// Puts an answer into the caller's struct. The caller may know less of it than we do: no more than its size is written,
// and its header stays as it is.
template <typename T>
void answer(T* out, const T& value) noexcept {
  const lf_hdr known = out->h;
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(known.size, sizeof value));
  out->h = known;
}

}  // namespace lf::sdk
