#include "not_inlined.h"

int32_t lf_not_inlined(const void* object, int32_t* out, lf_err*) {
  if (object == nullptr) return LF_E_INVALID;
  *out = 1;
  return LF_OK;
}
