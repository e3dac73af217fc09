// Small files that are replaced whole: readers see the old content or the new one.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

namespace lf {

// Writes all bytes. False where that failed, with errno, as where a pipe's reader has gone. Async-signal-safe.
bool write_all(int descriptor, std::string_view bytes);

// Written beside, as PATH.part, and renamed once every byte and the closing have gone well. Otherwise the error says
// why (of the system's category), what stood at `path` still does, and nothing is left beside it. Not synced: a power
// cut may take it.
[[nodiscard]] std::error_code replace_file(const std::filesystem::path& path, std::string_view content) noexcept;

}  // namespace lf
