// `lfrun balance`: what would balancing gain me, before I rent the machines?
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "balance_command/comparison.h"
#include "balance_command/steps.h"
#include "plugins/plugins.h"

namespace lf {

// Plans the given samples with each policy and writes a table, or JSON, to `out`, and a picture where one is asked for.
// Returns the exit code; throws lf::Error for what the user gave wrong. `arguments`: the words after "balance".
int run_balance(std::span<const std::string> arguments, const PolicyMaker& make_policy, const JobReader& read_job,
                std::ostream& out);

// With the policies of a plugin set, which is to outlive the policies, as the host is; null: plugins are not started.
PolicyMaker policies_of(PluginSet& plugins, const lf_host* host);

}  // namespace lf
