// Files of the run directory that are written anew as the run goes on. Internal to metrics.
#pragma once

#include <filesystem>
#include <string_view>

namespace lf {

// As replace_file() of core/whole_file.h. Throws lf::Error(kIo).
void replace_in_run(const std::filesystem::path& path, std::string_view content);

}  // namespace lf
