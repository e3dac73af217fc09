// Shell patterns (* ? [...]) over names, as model.freeze, [lora] and [[optimizer.groups]] have them.
#pragma once

#include <string>
#include <vector>

namespace lf {

bool matches(const std::string& pattern, const std::string& name);

// For messages about a pattern that matches nothing: the names that it may have meant, by the nearest word of any of
// them to its longest literal word ("*.q_porj" -> the names with "q_proj"), else some of all names. At most a few
// lines.
std::string near_names(const std::string& pattern, const std::vector<std::string>& names);

}  // namespace lf
