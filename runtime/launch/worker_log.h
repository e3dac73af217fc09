// What a worker of this host leaves behind: its log (written by the core) and its stderr (redirected by the launcher).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lf {

std::filesystem::path log_file(const std::filesystem::path& folder, int rank);     // rank1.log
std::filesystem::path stderr_file(const std::filesystem::path& folder, int rank);  // rank1.stderr

// In a worker other than rank 0: stdout and stderr go to the end of its stderr file. Throws lf::Error(kCannotCreate).
void redirect_output(const std::filesystem::path& folder, int rank);

// The last lines of a file, at most `lines`, of what was written after its first `from` bytes.
std::vector<std::string> last_lines(const std::filesystem::path& file, uintmax_t from, size_t lines);

uintmax_t size_or_zero(const std::filesystem::path& file);

}  // namespace lf
