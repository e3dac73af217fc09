// Pictures that are stored in a table, decoded by the host like those in files.
#pragma once

#include <string>

#include "family/media_access.h"

namespace lf::robot {

// bytes: of a JPEG, PNG or WebP file, which has to have `size`. `place` is how messages call it. Throws
// sdk::Failure(LF_E_DATA).
void decode_embedded(const family::MediaAccess& media, const std::string& bytes, media::Size size,
                     const std::string& place, family::Pixels& out);

}  // namespace lf::robot
