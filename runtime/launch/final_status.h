// status.json of a run whose rank 0 could not write its own last word.
#pragma once

#include <filesystem>
#include <string>

#include <sys/types.h>

namespace lf {

// Where `run_directory`/status.json is of the process `leader` on this host and still says "running", it says `state`
// from now on, and keeps the rest. With `not_the_leaders` fault also where it says "failed: ...": rank 0 saw only that
// a peer was gone. A file of another process, or none, stays as it is. Never throws.
void write_final_status(const std::filesystem::path& run_directory, pid_t leader, const std::string& state,
                        bool not_the_leaders) noexcept;

}  // namespace lf
