// The SHA-256 of a file's bytes, in hexadecimal (FIPS 180-4).
#pragma once

#include <filesystem>
#include <string>

#include "plugins/trust.h"

namespace lf {

std::string sha256_of(const OpenFile& file);
// Throws lf::Error(kInputMissing) where the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace lf
