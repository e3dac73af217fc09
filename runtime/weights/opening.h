// Which Python class opens a model directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lf {

// A command that opens `directory` by the library that its config.json is of: diffusers' class by _class_name, the Wan
// authors' own by theirs, transformers' by the ending of architectures. Empty where config.json names none of them.
std::string opening_command(std::string_view config_json, const std::filesystem::path& directory);

}  // namespace lf
