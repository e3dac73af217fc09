// Whether code that the dynamic linker mapped is that of a file which was checked before.
#pragma once

#include "plugins/trust.h"

namespace lf {

// `address`: of a symbol of the object that was opened. Compares every segment of it that nothing writes to (code,
// constants, headers) with the bytes of `file`. The linker opens by path, so a path that led elsewhere for a moment
// would show nowhere else; inode numbers of mappings are no help, since overlay file systems report others there.
// Throws Refusal.
void require_mapped_from(const OpenFile& file, const void* address);

}  // namespace lf
