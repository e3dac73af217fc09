// A plugin's shared object opened in this process: the one place where its code first runs.
#pragma once

#include <functional>

#include "plugins/plugins.h"

namespace lf {

enum class OpenStage : char { kOpening = 'o', kEntry = 'e', kInterfaces = 'i' };

// Opens the file with all symbols resolved, out of everyone else's symbol scope, never to be unloaded; calls its entry
// and compares the descriptor with the manifest. `stage` is told what is about to run. Throws Refusal.
const lf_plugin* open_plugin(const Candidate& candidate, const std::function<void(OpenStage)>& stage);

}  // namespace lf
