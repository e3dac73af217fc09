// The files of a model directory that are no weights: configuration, tokenizer, templates, licence, pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weights/file_system.h"

namespace lf {

struct CopiedFile {
  std::filesystem::path source;    // what a symbolic link points at
  std::filesystem::path relative;  // under the new directory
  uint64_t bytes = 0;
};

// A whole file, by its name in the new directory.
struct ExtraFile {
  std::string name, bytes;
};

// Everything under `directory` but `except` (relative names), hidden folders, and whatever lies around `target`.
// Weights in other files or formats are left out, since they would be stale beside new ones; their names are appended
// to `left_out`. Symbolic links to files are resolved; links to folders are not followed.
std::vector<CopiedFile> companion_files(const std::filesystem::path& directory, const std::vector<std::string>& except,
                                        const std::filesystem::path& target, std::vector<std::string>& left_out);

// What a tokenizer and processor need, of those that `directory` has: tokenizer.json, chat_template.jinja, ...
std::vector<CopiedFile> tokenizer_files(const std::filesystem::path& directory);

// Copies into `target`, making folders as needed; every file is synced.
void copy_files(FileSystem& files, const std::vector<CopiedFile>& copies, const std::filesystem::path& target);

}  // namespace lf
