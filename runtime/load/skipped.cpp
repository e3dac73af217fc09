#include "load/skipped.h"

#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <simdjson.h>

#include "core/error.h"
#include "core/log.h"
#include "core/whole_file.h"
#include "data/json_text.h"
#include "data/path_text.h"

namespace lf {
namespace {

std::string to_line(const SkippedSample& sample) {
  std::string line = fmt::format(R"({{"step":{},"position":{},"sample":{},"kind":"{}","reason":)", sample.step + 1,
                                 sample.position, sample.index, sample.kind);
  append_json_string(line, readable(sample.reason));  // may name a file of other bytes
  return line + "}\n";
}

// A line without a position, as a crash may leave at the end, is not.
bool is_before(const std::string& line, uint64_t position) {
  simdjson::dom::parser parser;
  uint64_t at = 0;
  return parser.parse(line)["position"].get(at) == simdjson::SUCCESS && at < position;
}

}  // namespace

SkippedList::SkippedList(std::filesystem::path path, uint64_t position) : path_(std::move(path)) {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  std::ifstream old(path_);
  std::string kept;
  bool all = true;
  for (std::string line; std::getline(old, line);) {
    const bool keep = is_before(line, position) && !old.eof();  // a whole line has an end
    if (keep) kept += line + "\n";
    all = all && keep;
  }
  if (!old.is_open() || old.bad())
    complain(path_.string() + ": cannot be read");
  else if (const std::error_code failed = all ? std::error_code() : replace_file(path_, kept))
    complain(fmt::format("{}: cannot be written: {}", path_.string(), failed.message()));
}

void SkippedList::add(const std::vector<SkippedSample>& samples) try {
  if (samples.empty()) return;
  if (!file_) {
    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    file_.emplace(path_);
  }
  for (const SkippedSample& sample : samples) file_->append(to_line(sample));
} catch (const Error& error) {
  complain(error.what());
}

void SkippedList::complain(const std::string& what) {
  if (complained_) return;
  complained_ = true;
  log::warning("{}; training goes on without the list of skipped samples", what);
}

}  // namespace lf
