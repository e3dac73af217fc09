// What `lfrun check` finds out beside the job file itself, one question a function.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "config/config.h"

namespace lf {

// Throws kCannotCreate naming the first folder that does not let a run directory be made or written in.
// Leaves nothing behind, also where it is killed.
void require_writable(const std::filesystem::path& output);

// What a run of this job would go on from, as a line for people: "nothing, ..." or the checkpoint and its step. Newer
// ones that are broken are lines of their own. Every byte is read where all of a checkpoint is at most `most_bytes`,
// else sizes are compared. `settings`: as in train/saving.h; empty: not compared. `total_steps`: of the run; 0: not
// known. Throws as training would: no checkpoint is whole, or the newest is of another job.
std::string resume_line(const JobConfig& config, const std::map<std::string, std::string>& settings,
                        int64_t total_steps, uint64_t most_bytes);

}  // namespace lf
