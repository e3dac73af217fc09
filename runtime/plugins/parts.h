// The files that a plugin opens by itself: they run in the same process, so they are judged as the plugin is. What a
// plugin opens of a vendor's installation is not among them: that is where the user says it is.
#pragma once

#include <string_view>

#include "plugins/plugins.h"
#include "plugins/trust.h"

namespace lf {

// Whether a text of the manifest's "parts" is one: a relative path, patterns (fnmatch) in its last component alone.
bool is_part_pattern(std::string_view text);

// The files that are there, by pattern and name. Throws Refusal, naming the file, where one could be somebody else's,
// is no shared object for this processor (x86_level), or would bring in libraries of the working directory.
std::vector<PluginPart> judge_parts(const std::filesystem::path& folder, const std::vector<std::string>& patterns,
                                    int x86_level);

// Before its code runs: `file` is the one that was judged, with the locked bytes where there is a lock; and the same of
// all its parts. Throw Refusal.
void require_as_judged(const Candidate& candidate, const OpenFile& file);
void require_parts_as_judged(const Candidate& candidate);

}  // namespace lf
