// What files are called in messages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lf {

// Of each path its last parts, as few as tell it apart from the others: "train.jsonl", or "a/train.jsonl" and
// "b/train.jsonl"; readable(). Paths: absolute. A path that is there twice keeps its last part.
std::vector<std::string> telling_names(const std::vector<std::filesystem::path>& paths);

}  // namespace lf
