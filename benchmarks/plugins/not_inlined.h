// The work of a call and nothing else, in another file so that the compiler cannot look inside: what to compare with.
#pragma once

#include <cstdint>

#include "lf/plugin_api/abi.h"

int32_t lf_not_inlined(const void* object, int32_t* out, lf_err* err);
