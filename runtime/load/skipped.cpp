#include "load/skipped.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <simdjson.h>

#include "core/log.h"
#include "data/json_text.h"

namespace lf {
namespace {

std::string to_line(const SkippedSample& sample) {
  std::string line = fmt::format(R"({{"step":{},"position":{},"sample":{},"kind":"{}","reason":)", sample.step + 1,
                                 sample.position, sample.index, sample.kind);
  append_json_string(line, sample.reason);
  return line + "}\n";
}

// A line without a position, as a crash may leave at the end, is not kept.
bool is_before(const std::string& line, uint64_t position) {
  simdjson::dom::parser parser;
  uint64_t at = 0;
  return parser.parse(line)["position"].get(at) == simdjson::SUCCESS && at < position;
}

}  // namespace

SkippedList::SkippedList(std::filesystem::path path, uint64_t position) : path_(std::move(path)) {
  std::string kept;
  {
    std::ifstream old(path_);
    for (std::string line; std::getline(old, line);)
      if (is_before(line, position)) kept += line + "\n";
  }
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  const std::filesystem::path part = path_.string() + ".part";
  std::ofstream(part, std::ios::trunc) << kept;
  std::error_code failed;
  std::filesystem::rename(part, path_, failed);
  if (failed) complain(failed.message());
}

void SkippedList::add(const std::vector<SkippedSample>& samples) {
  if (samples.empty()) return;
  if (!file_.is_open()) {
    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    file_.open(path_, std::ios::app);
  }
  for (const SkippedSample& sample : samples) file_ << to_line(sample);
  file_.flush();
  if (!file_) complain(std::strerror(errno));
}

void SkippedList::complain(const std::string& what) {
  file_.clear();
  if (complained_) return;
  complained_ = true;
  log::warning("{}: cannot be written ({}); training goes on without the list of skipped samples", path_.string(),
               what);
}

}  // namespace lf
