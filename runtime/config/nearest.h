// "Did you mean": the known name that a mistyped one is closest to.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lf {

// Edits (insert, delete, replace, swap two neighbours) from one word to the other: the optimal string alignment
// distance.
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, dotted names compared as a whole and by their last part (so that a key in the wrong table is
// found); none where the nearest is too far to be what was meant.
std::optional<std::string_view> nearest(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace lf
