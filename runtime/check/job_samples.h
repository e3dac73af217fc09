// A job's samples for `lfrun balance`: counted by the job's own model, limited as its training would limit them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "balance/calibration.h"
#include "config/job.h"

namespace lf {

// At most some ten thousand samples, spread evenly over the data set, from texts and headers of files: nothing is
// decoded, nothing is trained. Throws what resolve_job and the model throw; kUsage for streams, which are read once.
JobSamples read_job_samples(const std::filesystem::path& job, const std::vector<std::string>& sets,
                            const PluginPlaces& places);

}  // namespace lf
