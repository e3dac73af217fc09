// Where a model family's complaint about its configuration stands in the job.
#pragma once

#include <filesystem>
#include <string>

namespace lf {

// Families call what they are given config.json: "config.json.hidden_size: expected ...", "config.json: vision.depth:
// expected ...". Returned is the message with the file's own path, "/models/tiny.json: hidden_size: expected ...", or,
// where `file` is empty and so [model.options] is the configuration, "model.options.hidden_size: expected ...".
std::string with_config_place(const std::string& message, const std::filesystem::path& file);

}  // namespace lf
