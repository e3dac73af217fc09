// What came of it: as a table or JSON, and as a picture where one is asked for.
#pragma once

#include <ostream>
#include <vector>

#include "balance_command/comparison.h"
#include "balance_command/options.h"
#include "balance_command/simulation.h"
#include "balance_command/steps.h"

namespace lf {

// Throws kCannotCreate where the picture could not be written, before anything is worked out. Empty: none is wanted.
void require_place_for_plot(const std::filesystem::path& path);

// Both throw kCannotCreate where the picture cannot be written.
void report_comparison(const std::vector<PolicyResult>& rows, const Steps& steps, const BalanceOptions& options,
                       const Source& source, std::ostream& out);
void report_scaling(const std::vector<ScalingPoint>& points, const BalanceOptions& options, const Source& source,
                    std::ostream& out);

}  // namespace lf
