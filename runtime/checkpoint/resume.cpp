#include <algorithm>
#include <charconv>
#include <map>

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace lf {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<int64_t> checkpoint_step(const fs::path& path) {
  const std::string name = path.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (code != std::errc() || stop != end || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

bool has_checkpoints(const fs::path& directory) {
  std::error_code code;
  fs::directory_iterator entries(directory, code);
  return !code && std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return checkpoint_step(entry.path()).has_value();
  });
}

ResumePoint find_resume_point(const fs::path& directory, Verify verify, std::string_view next_move) {
  ResumePoint found;
  std::error_code code;
  if (!fs::exists(directory, code)) return found;
  std::map<int64_t, fs::path> published;
  fs::directory_iterator entries(directory, code);
  if (code) throw FileError(code.value(), "listing", directory);
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : entries) {
    if (const std::optional<int64_t> step = checkpoint_step(entry.path())) {
      published[*step] = entry.path();
    } else if (entry.path().filename().string().starts_with(".tmp-")) {
      unfinished.push_back(entry.path());
    }
  }
  std::sort(unfinished.begin(), unfinished.end());
  for (const fs::path& path : unfinished)
    found.skipped.push_back(fmt::format("{}: a save that was cut off before it was complete", path.string()));
  for (auto candidate = published.rbegin(); candidate != published.rend(); ++candidate) {
    try {
      found.checkpoint = Checkpoint::open(candidate->second, verify);
      return found;
    } catch (const std::exception& error) {
      found.skipped.push_back(error.what());
    }
  }
  if (published.empty()) return found;
  std::string all;
  for (const std::string& reason : found.skipped) all += "\n  " + reason;
  fail(Exit::kBadData, "{}: expected a whole checkpoint, found none; {}:{}", directory.string(), next_move, all);
}

}  // namespace lf
