// skipped.jsonl: the samples that a run passed over, and why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/append_file.h"

namespace lf {

struct SkippedSample {
  int64_t step = 0;                  // 0 is the first; in the list 1 is, as in metrics.jsonl
  uint64_t position = 0, index = 0;  // in the global order, and in the data set
  std::string kind;                  // "bad" | "too_long"
  std::string reason;                // "file:line: field: reason"
};

// Appends one JSON line each. Written by rank 0 only. A list that cannot be written is a warning, once: training goes
// on, and what the list held stays as it was.
class SkippedList {
 public:
  // Entries of an earlier run at or beyond `position` are taken out: that part of the data is about to be seen again.
  SkippedList(std::filesystem::path path, uint64_t position);

  void add(const std::vector<SkippedSample>& samples);

 private:
  void complain(const std::string& what);

  std::filesystem::path path_;
  std::optional<AppendFile> file_;
  bool complained_ = false;
};

}  // namespace lf
