// The JSON files beside a model's weights.
#pragma once

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

namespace lf::family {

// The object that the file holds; nothing where there is no such file. Throws sdk::Failure(LF_E_INVALID), naming the
// file, for one that cannot be read, is no JSON, or holds something else.
std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path);

}  // namespace lf::family
