// The steps that policies are asked about: of a job, a file, or drawn from a distribution.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "balance/calibration.h"
#include "balance/workload.h"
#include "balance_command/options.h"

namespace lf {

// A job file's samples, with these settings ("data.max_tokens=512") over it.
using JobReader = std::function<JobSamples(const std::filesystem::path& job, const std::vector<std::string>& settings)>;

// Where the samples come from, and what was done to them.
struct Source {
  std::vector<WorkSample> file;  // empty: drawn from a distribution
  std::string costs, note;
};

// Reads the job or the file that the options name; what a job says and no flag does is written into the options.
// Throws lf::Error for what is not there or cannot be read.
Source source_of(BalanceOptions& options, const JobReader& read_job);

using Steps = std::vector<std::vector<WorkSample>>;

// All of a file's samples, shuffled by the seed and cut into steps; or one step drawn where there is no file.
Steps steps_of(Source& source, const BalanceOptions& options);

// One step, drawn with replacement from the file, or from the distribution: as many ranks as the options say need more
// samples than a file may have.
std::vector<WorkSample> drawn_step(const Source& source, const BalanceOptions& options);

}  // namespace lf
